"""Integer linear programming for Berthage: the solvers ``ilp-pulp`` and ``ilp-pyomo``.

The solvers are reached by name through `berthage.solve`; this package has no other public names.
"""

__version__ = "0.1.0"
