"""The parts of `ProblemBuilder`: variables, costs, relations, budgets."""
