"""The conformance kit, run on the chain and on every rule of the plugin ``presolve`` by itself."""

from berthage.testing import reduction_conformance

ONCE = {"hooks_are_light": "the plugin has one hooks module, looked at with presolve"}
FEW = 12

TestPresolve = reduction_conformance("presolve", max_examples=30)
TestArcConsistency = reduction_conformance("arc-consistency", max_examples=FEW, exclude=ONCE)
TestBudgetPins = reduction_conformance("budget-pins", max_examples=FEW, exclude=ONCE)
TestMergeTies = reduction_conformance("merge-ties", max_examples=FEW, exclude=ONCE)
TestSingleLabels = reduction_conformance("single-labels", max_examples=FEW, exclude=ONCE)
TestMergeEdges = reduction_conformance("merge-edges", max_examples=FEW, exclude=ONCE)
TestDominatedLabels = reduction_conformance("dominated-labels", max_examples=FEW, exclude=ONCE)
TestEliminate = reduction_conformance("eliminate", max_examples=FEW, exclude=ONCE)
TestComponents = reduction_conformance("components", max_examples=FEW, exclude=ONCE)
