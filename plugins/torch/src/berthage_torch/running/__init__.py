"""Plans run on real ranks: what a step takes, how right it is, and what a lowered step will do."""
