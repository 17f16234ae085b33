"""Plans carried out: lowered to what one rank runs, as modules that train."""
