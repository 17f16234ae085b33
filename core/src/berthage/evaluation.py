"""`evaluate`: the single truth about an assignment. Core calls it on whatever a solver returns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from berthage.errors import InvalidProblemError
from berthage.problem.arrays import EXACT_FLOAT, Array, Float64Array, Int32Array, Int64Array
from berthage.problem.budgets import IntervalBudget, LinearBudget
from berthage.problem.model import PlacementProblem
from berthage.problem.relations import Relation, RelationKind

__all__ = ["BudgetUse", "Evaluation", "Violation", "evaluate"]


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which an assignment is not feasible.

    Attributes:
        kind: ``"forbidden label"``, ``"forbidden pair"``, ``"relation"`` or ``"budget"``.
        name: Variable, edge or constraint that is violated.
        detail: What happened, in words.
    """

    kind: str
    name: str
    detail: str


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """How much of a budget an assignment uses.

    Attributes:
        name: Name of the budget.
        used: The sum, or the peak over time for an interval budget; exact when the weights are whole.
        lower: Least allowed (-inf for none).
        limit: Greatest allowed (inf for none).
        instant: The first instant at which the peak is reached; None for linear budgets or when nothing is
            live.
        penalty: What a soft budget adds to the objective.
    """

    name: str
    used: int | float
    lower: int | float
    limit: int | float
    instant: int | None = None
    penalty: int | float = 0


@dataclass(frozen=True, eq=False, slots=True)
class Evaluation:
    """What an assignment costs and what it violates.

    Attributes:
        objective: Total cost; inf when something forbidden is chosen. An exact ``int`` when the problem is
            integral,
            else the correctly rounded sum.
        feasible: Whether nothing is violated.
        violations: Every violation, by name.
        unary: float64[n], unary cost of each variable, multiplicity included.
        pairwise: float64[m], cost of each edge, multiplicity included.
        penalties: Cost of each soft budget that is exceeded.
        budget_use: Use of every budget.
    """

    objective: int | float
    feasible: bool
    violations: tuple[Violation, ...]
    unary: Float64Array
    pairwise: Float64Array
    penalties: Mapping[str, int | float]
    budget_use: tuple[BudgetUse, ...]


@np.errstate(over="ignore")
def evaluate(problem: PlacementProblem, assignment: npt.ArrayLike) -> Evaluation:
    """Cost, per-term breakdown and violations of an assignment.

    Args:
        problem: The problem.
        assignment: int[n], a label index for every variable.

    Returns:
        The evaluation; infeasible assignments are evaluated too.

    Raises:
        InvalidProblemError: When the assignment has the wrong length or a label does not exist, or when finite costs
            add up to more than a float can hold.
    """
    x = problem.check_assignment(assignment)
    cells = problem.label_ptr[:-1] + x
    unary = problem.unary[cells]
    unary_residual = None if problem.unary_residual is None else problem.unary_residual[cells]
    pairwise, pair_residual = _edge_costs(problem, x)
    violations = [*_forbidden(problem, x, unary, pairwise), *_broken_relations(problem, x)]
    uses: list[BudgetUse] = []
    for budget in problem.budgets:
        use = _linear_use(budget, x) if isinstance(budget, LinearBudget) else _interval_use(budget, x)
        uses.append(use)
        if budget.price is None and (why := _exceeded(problem, budget, use, x)):
            violations.append(Violation("budget", budget.name, why))
    penalties = {use.name: use.penalty for use in uses if use.penalty}
    if np.isinf(unary).any() or np.isinf(pairwise).any():
        objective: int | float = math.inf
    else:
        objective = _representable(
            problem,
            _total(
                problem,
                [
                    (unary, unary_residual, problem.multiplicity),
                    (pairwise, pair_residual, problem.edge_multiplicity),
                ],
                [problem.constant, *penalties.values()],
            ),
        )
    return Evaluation(
        objective,
        not violations,
        tuple(violations),
        unary * problem.multiplicity,
        pairwise * problem.edge_multiplicity,
        penalties,
        tuple(uses),
    )


def _edge_costs(problem: PlacementProblem, x: Int32Array) -> tuple[Float64Array, Int64Array | None]:
    """Cost of every edge before multiplicity, table by table."""
    m = problem.num_edges
    costs = np.zeros(m)
    residual: Int64Array | None = None
    order = np.argsort(problem.edge_table, kind="stable")
    starts = np.searchsorted(problem.edge_table[order], np.arange(len(problem.tables) + 1)).tolist()
    rows, cols = x[problem.edge_u], x[problem.edge_v]
    for table, start, stop in zip(problem.tables, starts[:-1], starts[1:], strict=True):
        if start == stop:
            continue
        edges = order[start:stop]
        costs[edges], extra = table.exact(rows[edges], cols[edges])
        if extra is not None and extra.any():
            residual = np.zeros(m, dtype=np.int64) if residual is None else residual
            residual[edges] = extra
    return costs, residual


def _total(
    problem: PlacementProblem,
    terms: list[tuple[Float64Array, Int64Array | None, Int64Array]],
    numbers: list[int | float],
) -> int | float:
    """Σ multiplicity·(value + residual) + Σ numbers: an exact int when the problem is integral, else rounded once."""
    if not problem.is_integral:
        products = [(values * copies).tolist() for values, _, copies in terms]
        try:
            return math.fsum(value for part in (*products, [float(n) for n in numbers]) for value in part)
        except OverflowError:
            return math.inf
    total = sum(int(number) for number in numbers)
    for values, residual, copies in terms:
        magnitude = float(np.abs(values * copies).sum())
        if residual is None and magnitude < EXACT_FLOAT:
            total += int((values * copies).sum())
            continue
        extra = [0] * len(values) if residual is None else residual.tolist()
        total += sum(c * (int(a) + r) for a, r, c in zip(values.tolist(), extra, copies.tolist(), strict=True))
    return total


def _representable(problem: PlacementProblem, total: int | float) -> int | float:
    """The total, if a float can hold it: beyond that no bound, gap or solver could speak of it, and inf is taken."""
    try:
        representable = math.isfinite(float(total))
    except OverflowError:
        representable = False
    if not representable:
        raise InvalidProblemError(
            f"problem {problem.name!r}: this assignment costs more than a float can hold (1.8e308); rescale the costs"
        )
    return total


def _forbidden(
    problem: PlacementProblem, x: Int32Array, unary: Float64Array, pairwise: Float64Array
) -> list[Violation]:
    found = []
    for v in np.flatnonzero(np.isinf(unary)).tolist():
        name = problem.variable_names[v]
        found.append(
            Violation(
                "forbidden label",
                name,
                f"variable {name!r} takes label {problem.label_name(v, int(x[v]))!r}, whose cost is inf",
            )
        )
    for e in np.flatnonzero(np.isinf(pairwise)).tolist():
        u, v = int(problem.edge_u[e]), int(problem.edge_v[e])
        found.append(
            Violation(
                "forbidden pair",
                problem.edge_name(e),
                f"{problem.variable_names[u]!r} at {problem.label_name(u, int(x[u]))!r} with "
                f"{problem.variable_names[v]!r} at {problem.label_name(v, int(x[v]))!r} costs inf",
            )
        )
    return found


def _broken_relations(problem: PlacementProblem, x: Int32Array) -> list[Violation]:
    found = []
    for relation in problem.relations:
        label_u = int(x[relation.u])
        label_v = int(x[relation.v]) if relation.v >= 0 else -1
        if not relation.allows(label_u, label_v):
            found.append(Violation("relation", relation.name, _describe(problem, relation, label_u, label_v)))
    return found


def _describe(problem: PlacementProblem, relation: Relation, label_u: int, label_v: int) -> str:
    u = f"{problem.variable_names[relation.u]!r} takes {problem.label_name(relation.u, label_u)!r}"
    if relation.kind is RelationKind.LABELS:
        return f"{u}, which it may not"
    v = f"{problem.variable_names[relation.v]!r} takes {problem.label_name(relation.v, label_v)!r}"
    return f"{u} while {v}, which may not go together"


def chosen_weights(budget: LinearBudget | IntervalBudget, x: Int32Array) -> Array:
    """Weight of the chosen label of every row of a budget."""
    weights: Array = budget.weights[budget.ptr[:-1] + x[budget.variables]]
    return weights


def _linear_use(budget: LinearBudget, x: Int32Array) -> BudgetUse:
    chosen = chosen_weights(budget, x)
    used: int | float = sum(chosen.tolist()) if chosen.dtype.kind == "i" else math.fsum(chosen.tolist())
    outside = max(used - budget.upper, budget.lower - used, 0)
    penalty = 0 if budget.price is None or not outside else budget.price * outside
    return BudgetUse(budget.name, used, budget.lower, budget.upper, None, penalty)


def _interval_use(budget: IntervalBudget, x: Int32Array) -> BudgetUse:
    chosen = chosen_weights(budget, x)
    if chosen.dtype.kind == "i" and len(chosen) and int(chosen.max()) * len(chosen) >= 2**62:
        chosen = chosen.astype(object)  # sums may leave int64: let Python integers carry them
    instants, use = budget.use_over_time(chosen)
    used: int | float = 0
    instant = None
    if len(use):
        peak = int(use.argmax())
        used, instant = use[peak].item() if hasattr(use[peak], "item") else use[peak], int(instants[peak])
    outside = max(used - budget.limit, 0)
    penalty = 0 if budget.price is None or not outside else budget.price * outside
    return BudgetUse(budget.name, used, -math.inf, budget.limit, instant, penalty)


def _exceeded(problem: PlacementProblem, budget: LinearBudget | IntervalBudget, use: BudgetUse, x: Int32Array) -> str:
    """Why a hard budget is violated, or an empty string."""
    slack = budget.slack
    if use.used > use.limit + slack:
        where = ""
        if isinstance(budget, IntervalBudget) and use.instant is not None:
            live = np.flatnonzero((budget.start <= use.instant) & (use.instant < budget.stop))
            heavy = live[np.argsort(-chosen_weights(budget, x)[live].astype(np.float64), kind="stable")][:3]
            names = ", ".join(repr(problem.variable_names[int(budget.variables[i])]) for i in heavy)
            where = f" at instant {use.instant} ({len(live)} live; the largest: {names})"
        return f"uses {use.used}, over its limit {use.limit}{where}"
    if use.used < use.lower - slack:
        return f"uses {use.used}, under its lower limit {use.lower}"
    return ""
