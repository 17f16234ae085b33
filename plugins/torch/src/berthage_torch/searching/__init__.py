"""From a graph and demands to a problem, and from its solution to a plan."""
