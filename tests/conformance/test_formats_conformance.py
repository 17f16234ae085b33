"""The kit for formats, run on every format of the plugin."""

from __future__ import annotations

from berthage.testing import format_conformance
from berthage.testing.strategies import Costs, Feature

COSTS_ONLY = frozenset(Feature) - {
    Feature.LINEAR_BUDGETS,
    Feature.INTERVAL_BUDGETS,
    Feature.SOFT_BUDGETS,
}
FEW = 20
ONCE = {"hooks_are_light": "the plugin has one hooks module, looked at with iopddl"}

TestIopddl = format_conformance("iopddl", features=COSTS_ONLY | {Feature.INTERVAL_BUDGETS}, max_examples=FEW)
TestUaiCosts = format_conformance(
    "uai", options={"values": "cost"}, features=COSTS_ONLY, max_examples=FEW, exclude=ONCE
)
TestUaiPotentials = format_conformance(
    "uai", features=COSTS_ONLY, costs=(Costs.INTEGER, Costs.EIGHTHS), max_examples=FEW, exclude=ONCE
)
TestWcsp = format_conformance(
    "wcsp", features=COSTS_ONLY, costs=(Costs.INTEGER, Costs.BIG), max_examples=FEW, exclude=ONCE
)
TestCfn = format_conformance("cfn", features=COSTS_ONLY, max_examples=FEW, exclude=ONCE)
TestGap = format_conformance("gap", exclude=ONCE)
TestSharding = format_conformance("sharding", exclude=ONCE)
