"""The conformance kit, run on ``toulbar2``; skipped where ``pytoulbar2`` is not installed, as the kit says."""

import pytest

from berthage.testing import conformance

_LONG = "hundreds of solves, and every one is a process of its own: in the slow run"

TestToulbar2 = conformance(
    "toulbar2",
    max_examples=2,
    exclude={
        "cutoffs_gaps_and_presolve_agree": _LONG,
        "same_answer_in_every_process": _LONG,
        "changes_act_as_they_should": _LONG,
        "bounds_hold_for_every_assignment": _LONG,
    },
)
TestToulbar2Wholly = pytest.mark.slow(conformance("toulbar2", max_examples=8))
