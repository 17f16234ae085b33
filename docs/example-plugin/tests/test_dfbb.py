"""The whole test of a solver plugin: the conformance kit makes a test class from its name."""

from berthage import ProblemBuilder, solve
from berthage.testing import conformance

TestDepthFirst = conformance("dfbb-example")
TestGivenOrder = conformance("dfbb-example", options={"order": "given"}, max_examples=5)


def test_rounding_cuts_nothing_off() -> None:
    """A kit tests what every solver must do; what is special about this one gets a test of its own.

    Added up in the order of the search, 0.1 + 0.2 + 0.3 is a little more than the exact sum, the cutoff.
    """
    builder = ProblemBuilder()
    for cost in (0.1, 0.2, 0.3):
        builder.add_variable(f"costs {cost}", 2, [cost, 1.0])
    assert (0.1 + 0.2) + 0.3 > 0.6
    result = solve(builder.build(), "dfbb-example", cutoff=0.6, presolve=False, options={"order": "given"})
    assert result.objective == 0.6
    assert result.termination.reason == "optimal"
