"""``split-dim`` against the contract of seeders."""

from berthage.testing import seeder_conformance

TestSplitDim = seeder_conformance("split-dim", max_examples=25)
TestSplitDimWithAnExactSolver = seeder_conformance("split-dim", options={"solver": "ilp"}, max_examples=3)
