"""The solver `lp` through the conformance kit: refusing what is fractional, and rounding it."""

from berthage.testing import conformance

SAME_CODE = {
    "same_answer_in_every_process": "TestLp shows it; fresh interpreters are slow",
    "hooks_are_light": "TestLp shows it; the hooks do not depend on options",
}

TestLp = conformance("lp")
TestLpRound = conformance(
    "lp", options={"round": True}, max_examples=15, exclude={"hooks_are_light": SAME_CODE["hooks_are_light"]}
)
TestLpInteriorPoint = conformance(
    "lp", options={"method": "ipm", "intervals": "running"}, max_examples=5, exclude=SAME_CODE
)
