"""Problems whose answers are known by hand: one idea each, so that a failing name says what is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from berthage import ClassedTable, DenseTable, LazyTable, PlacementProblem, ProblemBuilder
from berthage.testing.lazy import ArrayOracle

__all__ = ["KnownAnswer", "known_answers"]


@dataclass(frozen=True)
class KnownAnswer:
    """A problem and its answer.

    Attributes:
        name: what the problem is about; the id of the test.
        problem: the problem.
        objective: the optimum; inf when nothing is feasible.
        assignment: the only optimal assignment, or None when several are or none is.
    """

    name: str
    problem: PlacementProblem
    objective: int | float
    assignment: tuple[int, ...] | None = None

    @property
    def feasible(self) -> bool:
        """Whether the problem has any feasible assignment."""
        return self.objective < math.inf


Maker = Callable[[], KnownAnswer]


def known_answers() -> tuple[KnownAnswer, ...]:
    """All problems with known answers, feasible ones first."""
    return tuple(make() for make in (*_PLAIN, *_RELATIONS, *_BUDGETS, *_INFEASIBLE))


def _empty() -> KnownAnswer:
    b = ProblemBuilder("empty")
    b.add_constant(7)
    return KnownAnswer("empty", b.build(), 7, ())


def _single_label() -> KnownAnswer:
    b = ProblemBuilder("single label")
    b.add_variable("only", 1, [3])
    b.add_variable("free", 2, [5, 4])
    b.add_pairwise(0, 1, [[0, 10]])
    return KnownAnswer("single-label", b.build(), 8, (0, 0))


def _chain() -> KnownAnswer:
    # Greedy from either end is wrong: the cheap middle label is ruled out by both neighbours together.
    b = ProblemBuilder("chain")
    for name, cost in (("a", [0, 4]), ("b", [0, 3]), ("c", [0, 4])):
        b.add_variable(name, 2, cost)
    b.add_pairwise("a", "b", [[2, 0], [9, 9]])
    b.add_pairwise("b", "c", [[2, 9], [0, 9]])
    return KnownAnswer("chain", b.build(), 3, (0, 1, 0))


def _triangle() -> KnownAnswer:
    # The relaxation takes every variable half and pays nothing; the truth is 1.
    b = ProblemBuilder("frustrated triangle")
    for name in "abc":
        b.add_variable(name, 2)
    for u, v in ("ab", "bc", "ac"):
        b.add_pairwise(u, v, [[1, 0], [0, 1]])
    return KnownAnswer("frustrated-triangle", b.build(), 1)


def _negative() -> KnownAnswer:
    b = ProblemBuilder("negative costs")
    b.add_variable("a", 3, [-5, -7, 0])
    b.add_variable("b", 2, [-1, -2])
    b.add_pairwise("a", "b", [[-4, -4], [0, 0], [-1, -12]])
    b.add_constant(-100)
    return KnownAnswer("negative-costs", b.build(), -114, (2, 1))


def _parallel() -> KnownAnswer:
    # Three edges on one pair, one of them reversed, and a self edge: together label 1 of both is dearest.
    b = ProblemBuilder("parallel edges")
    b.add_variable("a", 2, [6, 0])
    b.add_variable("b", 2, [0, 0])
    b.add_pairwise("a", "b", [[0, 1], [2, 3]])
    b.add_pairwise("a", "b", [[0, 0], [1, 1]])
    b.add_pairwise("b", "a", [[5, 0], [5, 5]])
    b.add_pairwise("a", "a", [[0, 90], [90, 1]])
    return KnownAnswer("parallel-and-reversed-edges", b.build(), 4, (1, 0))


def _multiplicity() -> KnownAnswer:
    # Once, label 0 of `layer` would win (1 + 2 against 2 + 0); counted 32 times it loses by far.
    b = ProblemBuilder("multiplicity")
    b.add_variable("layer", 2, [1, 2], multiplicity=32)
    b.add_variable("other", 1)
    b.add_pairwise("layer", "other", [[2], [0]], multiplicity=31)
    return KnownAnswer("multiplicity", b.build(), 64, (1, 0))


def _forbidden_pairs() -> KnownAnswer:
    b = ProblemBuilder("forbidden entries")
    b.add_variable("a", 3, [0, 1, math.inf])
    b.add_variable("b", 2, [0, 4])
    b.add_pairwise("a", "b", np.array([[math.inf, 0], [math.inf, 1], [0, 0]]))
    return KnownAnswer("forbidden-entries", b.build(), 4, (0, 1))


def _disconnected() -> KnownAnswer:
    b = ProblemBuilder("disconnected")
    for pair in range(4):
        u = b.add_variable(f"u{pair}", 2, [pair, 1])
        v = b.add_variable(f"v{pair}", 2, [0, 1])
        b.add_pairwise(u, v, [[3, 0], [0, 3]])
    b.add_variable("alone", 3, [2, 1, 2])
    return KnownAnswer("disconnected", b.build(), 5)


def _classed() -> KnownAnswer:
    b = ProblemBuilder("classed table")
    b.add_variable("a", 4, [3, 0, 0, 3])
    b.add_variable("b", 4, [0, 0, 0, 1])
    classes = DenseTable([[0, 8], [8, 1]])
    b.add_pairwise("a", "b", ClassedTable(classes, [0, 1, 1, 0], [1, 1, 1, 0]))
    return KnownAnswer("classed-table", b.build(), 1)


def _lazy() -> KnownAnswer:
    b = ProblemBuilder("lazy table")
    b.add_variable("a", 3, [0, 1, 2])
    b.add_variable("b", 3, [0, 1, 2])
    values = np.array([[9.0, 9.0, 0.0], [9.0, 9.0, 9.0], [9.0, math.inf, 9.0]])
    b.add_pairwise("a", "b", LazyTable(ArrayOracle(values, slack=3.0)))
    return KnownAnswer("lazy-table", b.build(), 2, (0, 2))


def _names() -> KnownAnswer:
    # Solvers behind text files merge names that differ in such characters only.
    b = ProblemBuilder("awkward names")
    for name, cost in (("x+1", [3, 0]), ("x-1", [0, 3]), ("x 1", [3, 0]), ("x[1]", [0, 3]), ("x->1", [3, 0])):
        b.add_variable(name, ["S(+)", "S(-)"], cost)
    for u in range(4):
        b.add_pairwise(u, u + 1, [[1, 0], [0, 1]])
    return KnownAnswer("awkward-names", b.build(), 0, (1, 0, 1, 0, 1))


def _big() -> KnownAnswer:
    # In float64 2^60 + 1 is 2^60: the total is right only in exact arithmetic.
    b = ProblemBuilder("big integers")
    b.add_variable("a", 2, [2**60 + 1, 2**61])
    b.add_variable("b", 2, [2**60 + 1, 2**61])
    b.add_pairwise("a", "b", [[1, 0], [0, 0]])
    return KnownAnswer("big-integers", b.build(), 2**61 + 3, (0, 0))


def _tiny() -> KnownAnswer:
    # A cost of 1e-280 next to one of 1 is as good as nothing, and nothing may divide by it.
    b = ProblemBuilder("tiny costs")
    b.add_variable("a", 3, [0.0, 1.0, 1e-280])
    b.add_variable("b", 3, [-1.0, 0.0, 0.0])
    b.add_pairwise("a", "b", [[0.5, 0.0, 0.0], [0.0, 0.0, 4e-281], [1.0, 0.0, 0.0]])
    return KnownAnswer("tiny-costs", b.build(), -0.5, (0, 0))


def _subnormal() -> KnownAnswer:
    # The least positive float: 1 divided by it is inf.
    b = ProblemBuilder("subnormal cost")
    b.add_variable("a", 2, [0.0, 5e-324])
    return KnownAnswer("subnormal-cost", b.build(), 0)


def _tie() -> KnownAnswer:
    b = ProblemBuilder("tie")
    b.add_variable("a", 3, [0, 2, 5])
    b.add_variable("b", 3, [9, 2, 0])
    b.tie("a", "b", name="a=b")
    return KnownAnswer("tie", b.build(), 4, (1, 1))


def _tie_map() -> KnownAnswer:
    b = ProblemBuilder("tie through a map")
    b.add_variable("a", 3, [0, 2, 5])
    b.add_variable("b", 2, [9, 0])
    b.tie("a", "b", {0: 0, 1: 1, 2: 1}, name="follow")
    return KnownAnswer("tie-through-a-map", b.build(), 2, (1, 1))


def _tie_chain() -> KnownAnswer:
    b = ProblemBuilder("chain of ties")
    for name, cost in (("a", [0, 1]), ("b", [0, 1]), ("c", [3, 0]), ("d", [0, 0])):
        b.add_variable(name, 2, cost)
    for u, v in pairwise("abc"):
        b.tie(u, v, name=f"{u}={v}")
    b.add_pairwise("a", "c", [[2, 0], [0, 0]])
    b.add_pairwise("c", "d", [[0, 0], [7, 1]])
    return KnownAnswer("chain-of-ties", b.build(), 3, (1, 1, 1, 1))


def _relations() -> KnownAnswer:
    b = ProblemBuilder("relations")
    b.add_variable("a", 3, [0, 1, 2])
    b.add_variable("b", 3, [0, 1, 2])
    b.add_variable("c", 2, [0, 5])
    b.forbid("a", [0], name="not zero")
    b.forbid_pairs("a", "b", [(1, 0), (1, 1), (2, 0)], name="apart")
    b.fix("c", 1, name="fixed")
    return KnownAnswer("relations", b.build(), 8)


def _linear() -> KnownAnswer:
    # A knapsack whose greedy answer by density (a, then b no longer fits) is not the best.
    b = ProblemBuilder("knapsack")
    for name, gain in (("a", -10), ("b", -9), ("c", -9)):
        b.add_variable(name, 2, [0, gain])
    b.add_budget("weight", {"a": [0, 5], "b": [0, 4], "c": [0, 4]}, upper=8)
    return KnownAnswer("linear-budget", b.build(), -18, (0, 1, 1))


def _equality() -> KnownAnswer:
    b = ProblemBuilder("equality")
    for name in "abcd":
        b.add_variable(name, 3, [0, 2, 5])
    b.add_budget("sum", {name: [0, 1, 2] for name in "abcd"}, lower=3, upper=3)
    return KnownAnswer("equality-budget", b.build(), 6)


def _least() -> KnownAnswer:
    b = ProblemBuilder("at least")
    for name, cost in (("a", [0, 3]), ("b", [0, 2]), ("c", [0, 4])):
        b.add_variable(name, 2, cost)
    b.add_budget("cover", {"a": [0, -1], "b": [0, -1], "c": [0, -2]}, upper=-2)
    b.add_budget("cover again", {"a": [0, 1], "c": [0, 1]}, lower=1)
    return KnownAnswer("at-least-budget", b.build(), 4, (0, 0, 1))


def _bytes() -> KnownAnswer:
    # Three buffers of 16 GB and a limit 16 kB short of all three: within a solver's integrality tolerance of
    # 1e-6 a relaxed "0.999999" fits, so only a re-check in whole bytes tells.
    b = ProblemBuilder("bytes")
    size = 16_000_000_000
    for name, cost in (("a", [0, 5]), ("b", [0, 6]), ("c", [0, 7])):
        b.add_variable(name, ["resident", "sharded"], cost)
    b.add_budget("memory", {name: [size, 0] for name in "abc"}, upper=3 * size - 16_000)
    return KnownAnswer("budget-in-bytes", b.build(), 5, (1, 0, 0))


def _interval() -> KnownAnswer:
    # b overlaps both; a and c touch without overlapping, so only one dear move is needed. d is never live.
    b = ProblemBuilder("memory over time")
    for name, cost in (("a", [0, 9]), ("b", [0, 5]), ("c", [0, 9]), ("d", [0, 1])):
        b.add_variable(name, ["big", "small"], cost)
    rows = [("a", 0, 3, [4, 1]), ("b", 2, 5, [4, 1]), ("c", 3, 6, [4, 1]), ("d", 4, 4, [50, 1])]
    b.add_interval_budget("memory", rows, limit=5)
    return KnownAnswer("interval-budget", b.build(), 5, (0, 1, 0, 0))


def _soft_linear() -> KnownAnswer:
    # Two over at 3 each is cheaper than moving either variable.
    b = ProblemBuilder("soft budget")
    for name in "ab":
        b.add_variable(name, 2, [0, 8])
    b.add_budget("soft", {name: [3, 0] for name in "ab"}, upper=4, price=3)
    return KnownAnswer("soft-linear-budget", b.build(), 6, (0, 0))


def _soft_interval() -> KnownAnswer:
    # Over by 2 at one instant and by 1 at another: the price is for the peak (2 * 4), not for the sum.
    b = ProblemBuilder("soft peak")
    for name in "abc":
        b.add_variable(name, 2, [0, 9])
    rows = [("a", 0, 2, [3, 0]), ("b", 1, 4, [3, 0]), ("c", 3, 5, [2, 0])]
    b.add_interval_budget("peak", rows, limit=4, price=4)
    return KnownAnswer("soft-interval-budget", b.build(), 8, (0, 0, 0))


def _no_label() -> KnownAnswer:
    b = ProblemBuilder("nothing allowed")
    b.add_variable("a", 2, [math.inf, math.inf])
    b.add_variable("b", 2)
    return KnownAnswer("infeasible-labels", b.build(), math.inf)


def _no_pair() -> KnownAnswer:
    # No single pair of variables shows it: the odd cycle of "must differ" has no two-colouring.
    b = ProblemBuilder("odd cycle")
    for v in range(5):
        b.add_variable(f"v{v}", 2)
    for v in range(5):
        b.add_pairwise(v, (v + 1) % 5, [[math.inf, 0], [0, math.inf]])
    return KnownAnswer("infeasible-odd-cycle", b.build(), math.inf)


def _clash() -> KnownAnswer:
    b = ProblemBuilder("clash")
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.tie("a", "b", name="same")
    b.fix("a", 0, name="a is 0")
    b.fix("b", 1, name="b is 1")
    return KnownAnswer("infeasible-relations", b.build(), math.inf)


def _over_budget() -> KnownAnswer:
    # Each budget alone can be met; together with the pair they cannot.
    b = ProblemBuilder("two budgets")
    b.add_variable("a", 2)
    b.add_variable("b", 2)
    b.add_budget("first", {"a": [0, 2], "b": [2, 0]}, upper=2)
    b.add_budget("second", {"a": [2, 0], "b": [0, 2]}, upper=2)
    b.forbid_pairs("a", "b", [(0, 0), (1, 1)], name="differ")
    return KnownAnswer("infeasible-budgets", b.build(), math.inf)


def _over_time() -> KnownAnswer:
    b = ProblemBuilder("too much at once")
    b.add_variable("a", 2, [0, 1])
    b.add_variable("b", 2, [0, 1])
    rows = [("a", 0, 4, [9, 5]), ("b", 2, 6, [9, 5])]
    b.add_interval_budget("memory", rows, limit=9)
    return KnownAnswer("infeasible-interval-budget", b.build(), math.inf)


_PLAIN: tuple[Maker, ...] = (
    _empty,
    _single_label,
    _chain,
    _triangle,
    _negative,
    _parallel,
    _multiplicity,
    _forbidden_pairs,
    _disconnected,
    _classed,
    _lazy,
    _names,
    _big,
    _tiny,
    _subnormal,
)
_RELATIONS: tuple[Maker, ...] = (_tie, _tie_map, _tie_chain, _relations)
_BUDGETS: tuple[Maker, ...] = (_linear, _equality, _least, _bytes, _interval, _soft_linear, _soft_interval)
_INFEASIBLE: tuple[Maker, ...] = (_no_label, _no_pair, _clash, _over_budget, _over_time)
