"""From a PyTorch module and a mesh to a priced plan.

Importing this package imports no torch; its names do when they are first used.
"""
