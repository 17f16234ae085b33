"""Depth-first branch and bound, as simple as a useful solver can be.

Variables are fixed one after the other. The bound of a partial assignment is what is fixed so far, plus for
every open variable the least of its labels, where a label already carries its costs towards the fixed
variables and, towards each open variable that comes later, the least entry of its row. A branch whose bound
reaches the incumbent, or exceeds the cutoff, is cut.

Bounds are running sums of floats, so they round. A branch is cut only when its bound is beyond doubt, that is
by more than `rounding_of` the problem; core prices what survives exactly and decides.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import (
    Limit,
    PlacementProblem,
    Reason,
    SolveContext,
    SolveParams,
    SolverOutcome,
    Termination,
    lower_relations,
)
from berthage.problem import IntervalBudget, LinearBudget
from berthage_example_dfbb.hooks import DfbbOptions

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class BudgetRows:
    """A budget as rows that must each stay below a limit.

    A linear budget has a row per side, an interval budget one per instant at which something starts.

    Attributes:
        limit: float64[r].
        use: per position in the branching order, float64[r, K]: what each label adds to each row.
        least: float64[n + 1, r]: the least that positions i, i+1, … can still add.
        price: cost per unit of the greatest overuse, or None when the budget is hard.
        slack: the rounding that `evaluate` forgives in a hard budget.
    """

    limit: Floats
    use: tuple[Floats, ...]
    least: Floats
    price: float | None
    slack: float


class DepthFirst:
    """The solver named ``dfbb-example``. Core makes a fresh one for every solve."""

    def solve(
        self,
        problem: PlacementProblem,
        params: SolveParams,
        options: DfbbOptions | None,
        context: SolveContext,
    ) -> SolverOutcome:
        """See `berthage.Solver`. Everything returned here is checked by core; nothing is believed."""
        # Ties, fixed labels and forbidden pairs become infinite costs: one mechanism less to write.
        plain = lower_relations(problem)
        degree = np.bincount(np.concatenate([plain.edge_u, plain.edge_v]), minlength=plain.num_variables)
        given = options is not None and options.order == "given"
        order = np.arange(plain.num_variables) if given else np.argsort(-degree, kind="stable")
        search = _Search(plain, order, params, context)
        if params.warm_start is not None:
            search.offer(np.asarray(params.warm_start, dtype=np.int32))
        root = search.bound(0)
        if math.isfinite(root):
            root -= search.rounding
        context.bound(root)
        stopped = search.run()
        stats = {"nodes": search.nodes}
        found = context.best_objective is not None
        if stopped is not None:
            reason = Reason.FEASIBLE if found else Reason.NO_SOLUTION_FOUND
            return SolverOutcome(Termination(reason, stopped), bound=root, stats=stats)
        if not found:  # the whole tree was searched
            return SolverOutcome(Termination(Reason.INFEASIBLE), bound=math.inf, stats=stats)
        return SolverOutcome(Termination(Reason.OPTIMAL), search.best, bound=float(search.cost), stats=stats)


class _Search:
    def __init__(
        self, problem: PlacementProblem, order: npt.NDArray[Any], params: SolveParams, context: SolveContext
    ) -> None:
        self.order, self.params, self.context = order, params, context
        self.nodes = 0
        self.best: npt.NDArray[np.int32] | None = None
        # Nothing above the cutoff counts, but at the cutoff it does: see `hopeless`.
        self.cost: int | float = math.inf if params.cutoff is None else params.cutoff
        self.rounding = rounding_of(problem)
        n = problem.num_variables
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        self.open = [problem.unary_of(v) * problem.multiplicity[v] for v in order.tolist()]
        self.constant = float(problem.constant)
        # Edges from each position to later ones, rows belonging to the earlier end.
        self.later: list[list[tuple[int, Floats]]] = [[] for _ in range(n)]
        for u, v, t, many in zip(
            problem.edge_u, problem.edge_v, problem.edge_table, problem.edge_multiplicity, strict=True
        ):
            table = problem.tables[t].to_dense() * many
            first, second = int(position[u]), int(position[v])
            if first > second:
                first, second, table = second, first, table.T
            self.later[first].append((second, table))
        # What the labels of each position cost at least towards later positions.
        self.ahead = [
            sum((table.min(axis=1) for _, table in edges), np.zeros(len(costs)))
            for edges, costs in zip(self.later, self.open, strict=True)
        ]
        self.budgets = _budget_rows(problem, position)
        self.used = [np.zeros(len(budget.limit)) for budget in self.budgets]

    def offer(self, assignment: npt.NDArray[np.int32]) -> None:
        """Hand an assignment to core, which evaluates it; keep it when it is feasible and better."""
        objective = self.context.incumbent(assignment)
        if objective is not None and (self.best is None or objective < self.cost):
            self.best, self.cost = assignment, objective

    def bound(self, depth: int) -> float:
        """Lower bound of the partial assignment; ``constant`` holds what positions before depth cost."""
        total = self.constant
        for costs, ahead in zip(self.open[depth:], self.ahead[depth:], strict=True):
            total += float((costs + ahead).min())
        for budget, used in zip(self.budgets, self.used, strict=True):
            over = float((used + budget.least[depth] - budget.limit).max(initial=0.0))
            if budget.price is not None:
                total += budget.price * max(over, 0.0)
            elif over > budget.slack:
                total = math.inf
        return total

    def hopeless(self, bound: float) -> bool:
        """Whether nothing under a branch with this bound can be a new incumbent, however the bound was rounded."""
        surely = bound - self.rounding
        return math.isinf(bound) or surely > self.cost or (self.best is not None and surely == self.cost)

    def run(self) -> Limit | None:
        """Search the tree; the limit that stopped it, or None when it was searched to the end."""
        n = len(self.order)
        labels = np.zeros(n, dtype=np.int32)
        if n == 0:
            if not self.hopeless(self.bound(0)):
                self.offer(labels)
            return None
        # An explicit stack, one entry per depth: the labels still to try, and the state to come back to.
        stack = [self._branch(0)]
        while stack:
            choices, saved = stack[-1]
            depth = len(stack) - 1
            self.constant, self.open, self.used = saved[0], list(saved[1]), list(saved[2])
            if not choices:
                stack.pop()
                continue
            limit = self.context.stop_reason()
            if limit is None and self.params.iteration_limit is not None:
                limit = Limit.ITERATIONS if self.nodes >= self.params.iteration_limit else None
            if limit is not None:
                return limit
            self.nodes += 1
            label = choices.pop(0)
            labels[depth] = label
            self._fix(depth, label)
            if self.hopeless(self.bound(depth + 1)):
                continue
            if depth + 1 < n:
                stack.append(self._branch(depth + 1))
                continue
            assignment = np.empty(n, dtype=np.int32)
            assignment[self.order] = labels
            self.offer(assignment)
        return None

    def _branch(self, depth: int) -> tuple[list[int], tuple[float, list[Floats], list[Floats]]]:
        score = self.open[depth] + self.ahead[depth]
        choices = [label for label in np.argsort(score, kind="stable").tolist() if math.isfinite(score[label])]
        return choices, (self.constant, list(self.open), list(self.used))

    def _fix(self, depth: int, label: int) -> None:
        self.constant += float(self.open[depth][label])
        for other, table in self.later[depth]:
            self.open[other] = self.open[other] + table[label]
        for i, budget in enumerate(self.budgets):
            self.used[i] = self.used[i] + budget.use[depth][:, label]


def rounding_of(problem: PlacementProblem) -> float:
    """How far a running sum of this problem's costs may be from the true sum.

    Each addition of floats is off by at most half of 2^-52 of its result (Higham, Accuracy and Stability of
    Numerical Algorithms, 2002, section 4.2). No result exceeds the sum of the greatest costs in magnitude, and
    a bound is made of fewer additions than four times the terms. Whole numbers below 2^53 do not round at all.
    """

    def greatest(costs: npt.NDArray[Any]) -> float:
        return float(np.abs(costs[np.isfinite(costs)]).max(initial=0.0))

    size = abs(float(problem.constant))
    for v, many in enumerate(problem.multiplicity.tolist()):
        size += many * greatest(problem.unary_of(v))
    tables = [greatest(table.to_dense()) for table in problem.tables]
    for t, many in zip(problem.edge_table.tolist(), problem.edge_multiplicity.tolist(), strict=True):
        size += many * tables[t]
    soft = [budget for budget in problem.budgets if budget.price is not None]
    for budget in soft:
        limits = [budget.limit] if isinstance(budget, IntervalBudget) else [budget.lower, budget.upper]
        weights = [greatest(budget.weights[a:b]) for a, b in itertools.pairwise(budget.ptr.tolist())]
        size += float(budget.price or 0) * (sum(weights) + greatest(np.array(limits, dtype=np.float64)))
    if problem.is_integral and size < 2.0**53:
        return 0.0
    rows = sum(len(budget.variables) for budget in soft)
    terms = (1 + problem.num_variables) * (1 + len(soft)) + problem.num_edges + rows
    return 4.0 * terms * 2.0**-53 * size


def _budget_rows(problem: PlacementProblem, position: npt.NDArray[Any]) -> list[BudgetRows]:
    sizes = problem.num_labels[np.argsort(position)].tolist()
    found = []
    for linear in problem.linear_budgets:
        # lower <= sum <= upper as two rows: sum <= upper and -sum <= -lower; an absent side has an infinite
        # limit.
        use = [np.zeros((2, size)) for size in sizes]
        for i, v in enumerate(linear.variables.tolist()):
            weights = linear.weights[linear.ptr[i] : linear.ptr[i + 1]].astype(np.float64)
            use[position[v]] += np.stack([weights, -weights])
        limit = np.array([linear.upper, -linear.lower], dtype=np.float64)
        found.append(_with_least(linear, limit, use))
    for interval in problem.interval_budgets:
        # Use peaks at some start, so one row per distinct start says everything.
        starts = np.unique(interval.start)
        use = [np.zeros((len(starts), size)) for size in sizes]
        for i, v in enumerate(interval.variables.tolist()):
            live = (interval.start[i] <= starts) & (starts < interval.stop[i])
            use[position[v]] += np.outer(live, interval.weights[interval.ptr[i] : interval.ptr[i + 1]])
        found.append(_with_least(interval, np.full(len(starts), float(interval.limit)), use))
    return found


def _with_least(budget: LinearBudget | IntervalBudget, limit: Floats, use: list[Floats]) -> BudgetRows:
    real = np.isfinite(limit)
    kept = tuple(rows[real] for rows in use)
    least = np.zeros((len(use) + 1, int(real.sum())))
    for depth in range(len(use) - 1, -1, -1):
        least[depth] = least[depth + 1] + kept[depth].min(axis=1)
    # Sums of floats round, so a bound on use may not cut off by a hair what core would let pass.
    price = None if budget.price is None else float(budget.price)
    return BudgetRows(limit[real], kept, least, price, 2.0 * budget.slack)
