"""The reductions of the plugin pass the kit: all of them together, as they run by default, and each by its name."""

from __future__ import annotations

from berthage.testing import reduction_conformance

TestPresolve = reduction_conformance("presolve", max_examples=20)
TestArcConsistency = reduction_conformance("arc-consistency", max_examples=4)
TestBudgetPins = reduction_conformance("budget-pins", max_examples=4)
TestMergeTies = reduction_conformance("merge-ties", max_examples=4)
TestSingleLabels = reduction_conformance("single-labels", max_examples=4)
TestMergeEdges = reduction_conformance("merge-edges", max_examples=4)
TestDominatedLabels = reduction_conformance("dominated-labels", max_examples=4)
TestEliminate = reduction_conformance("eliminate", max_examples=4)
TestComponents = reduction_conformance("components", max_examples=4)
