"""Solving: parameters, results, reductions, and the checks that core makes."""
