"""The solver `lp` through the conformance kit: refusing what is fractional, and rounding it."""

from berthage.testing import conformance

TestLp = conformance("lp")
TestLpRound = conformance("lp", options={"round": True}, max_examples=15)
TestLpInteriorPoint = conformance("lp", options={"method": "ipm", "intervals": "running"}, max_examples=5)
