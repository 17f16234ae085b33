"""`solve`: reduce, hand to a solver chosen by name, check what it says, lift the answer back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np

from berthage.errors import BerthageError, OptionError, PluginError
from berthage.evaluation import evaluate
from berthage.problem.arrays import Int32Array
from berthage.problem.model import PlacementProblem
from berthage.registry import Capability, Registry, SolverInfo, build_options, load_registry
from berthage.solving.chain import Reduction, ReductionChain, run_chain
from berthage.solving.check import CheckedOutcome, check_outcome, check_shape, exact_sum, integral_bound
from berthage.solving.context import Clock, RunContext, SolveContext
from berthage.solving.infeasibility import (
    clashing_constraints,
    describe_clash,
    feasibility_problem,
    static_infeasibility,
)
from berthage.solving.interrupts import interruptible
from berthage.solving.least_limit import with_least_limit
from berthage.solving.params import Progress, SolveParams
from berthage.solving.results import (
    Infeasibility,
    Limit,
    Reason,
    SolveResult,
    SolverOutcome,
    Termination,
    TracePoint,
)

__all__ = ["Solver", "solve"]

EXPLAIN_SECONDS = 10.0
"""Most wall seconds spent on naming the constraints that clash, and never more than the time limit leaves."""

LEAST_SECONDS = 8.0
"""Most of them spent on the least limit that works: a bound on it is known at once, and waiting is no answer."""


class Solver(Protocol):
    """What a solver is: an object made anew for every solve."""

    def solve(
        self, problem: PlacementProblem, params: SolveParams, options: Any, context: SolveContext
    ) -> SolverOutcome:
        """Search for the least-cost assignment.

        Args:
            problem: What to solve. Never changed.
            params: Common parameters; the time limit is better asked of the context.
            options: An instance of the options class in the solver's description, or None.
            context: Time left, interruption, incumbents, bounds, timed phases.
        """
        ...


@dataclass(frozen=True, slots=True)
class _Named:
    """A solver ready to run, with what is known of it."""

    name: str
    version: str
    run: Callable[[PlacementProblem, SolveParams, Any, SolveContext], SolverOutcome]
    options: Any


def solve(
    problem: PlacementProblem,
    solver: str | Solver | Callable[..., SolverOutcome] = "ilp",
    *,
    params: SolveParams | None = None,
    options: Mapping[str, Any] | object | None = None,
    presolve: bool | Sequence[str | Reduction] = True,
    certify: str | None = None,
    registry: Registry | None = None,
    **shortcuts: Any,
) -> SolveResult:
    """Solve a problem and check everything the solver says.

    Args:
        problem: What to solve.
        solver: A solver's name, an object with a ``solve`` method, or a callable of the same arguments.
        params: Common parameters.
        options: The solver's own options, as a mapping or an instance of its options class.
        presolve: True for every registered reduction that runs by default, False for none, or the ones to run, by name
            or as objects.
        certify: Name of a solver whose bound is computed as well; the better bound stands.
        registry: Where names are looked up; read from what is installed when left out.
        **shortcuts: Fields of `SolveParams`, for instance ``time_limit=10``.

    Returns:
        The checked result. Running out of time, infeasibility and numerical trouble are values, not exceptions.

    Raises:
        UnknownNameError: When no solver or reduction has the name.
        OptionError: For unknown or ill-typed options or parameters.
        UnsupportedProblemError: When the solver cannot take this kind of problem.
        PluginError: When the solver or a reduction breaks its contract.
    """
    params = _params(params, shortcuts)
    registry = registry or load_registry()
    named = _named(solver, options, registry)
    run = _Run(problem, params, named, registry)
    with interruptible(run.clock):
        return run.result(presolve, certify)


class _Run:
    """One call of `solve`."""

    def __init__(self, problem: PlacementProblem, params: SolveParams, named: _Named, registry: Registry) -> None:
        self.problem = problem
        self.params = params
        self.named = named
        self.registry = registry
        self.clock = Clock(params.time_limit)
        self.trace: list[TracePoint] = []
        self.stats: dict[str, int | float | str | bool] = {}
        self.parts: list[SolveContext] = []
        self.whole = SolveContext(problem, params, self.clock)  # keeps the best assignment of the whole problem

    def result(self, presolve: bool | Sequence[str | Reduction], certify: str | None) -> SolveResult:
        self._tell("solve_started", None, -math.inf)
        chain: ReductionChain | None = None
        if self.params.warm_start is not None:
            self.whole.offer(
                start := self.problem.check_assignment(self.params.warm_start), evaluate(self.problem, start)
            )
        infeasibility = None
        try:
            infeasibility = static_infeasibility(self.problem)
            if infeasibility is None:
                chain = self._reduce(presolve)
                infeasibility = chain.infeasibility
        except KeyboardInterrupt:
            self.clock.interrupted = True
        self.clock.finishing = chain is None
        if infeasibility is not None:
            checked = _refuted(infeasibility)
        elif chain is None:
            checked = CheckedOutcome(
                Termination(Reason.NO_SOLUTION_FOUND, Limit.INTERRUPTED), None, None, -math.inf, None
            )
        else:
            checked = self._solve_parts(chain)
        checked = self._whole_outcome(checked)
        try:
            self.clock.finishing = False
            if certify is not None and checked.termination.reason is not Reason.INFEASIBLE:
                checked = self._certify(checked, certify)
            if checked.termination.reason is Reason.INFEASIBLE:
                checked = self._explain(checked, presolve)
        except KeyboardInterrupt:
            self.clock.interrupted = True  # what was found before stands as it is
        self.clock.finishing = True
        self.clock.timings["total"] = self.clock.total()
        self._tell("solve_finished", checked.objective, checked.bound)
        return SolveResult(
            termination=checked.termination,
            assignment=checked.assignment,
            objective=checked.objective,
            bound=checked.bound,
            evaluation=None if checked.assignment is None else evaluate(self.problem, checked.assignment),
            infeasibility=checked.infeasibility,
            trace=tuple(self.trace),
            timings=dict(self.clock.timings),
            solver=self.named.name,
            solver_version=self.named.version,
            seed=self.params.seed,
            stats=self.stats,
            reductions=chain.reports if chain is not None else (),
        )

    # -- steps --------------------------------------------------------------------------------

    def _reduce(self, presolve: bool | Sequence[str | Reduction]) -> ReductionChain:
        wanted: Sequence[str | Reduction]
        if isinstance(presolve, bool):
            available = [i for i in self.registry.reductions if i.default and not self.registry.unavailable_reason(i)]
            wanted = [info.name for info in available] if presolve else []
        else:
            wanted = [presolve] if isinstance(presolve, str) else presolve
        # Importing a plugin is no search: how fast a disk is must not decide whether there is time for presolve.
        with self.clock.phase("load", charged=False):
            reductions: list[tuple[str, Reduction]] = [
                (item, self.registry.create_reduction(item)) if isinstance(item, str) else (type(item).__name__, item)
                for item in wanted
            ]
        with self.clock.phase("presolve"):
            return run_chain(self.problem, reductions, RunContext(self.params, self.clock))

    def _solve_parts(self, chain: ReductionChain) -> CheckedOutcome:
        starts = None
        if self.whole.best_assignment is not None:
            starts = chain.project(self.whole.best_assignment)
        order = sorted(range(len(chain.parts)), key=lambda i: (len(chain.parts[i].unary), i))
        one = len(chain.parts) == 1
        self.parts = []
        for i, part in enumerate(chain.parts):
            params = replace(
                self.params,
                warm_start=None if starts is None else starts[i],
                cutoff=_loosened(self.params.cutoff, chain.bound_error) if one else None,
                # A cutoff on the sum says nothing of one part, so each has to be as cheap as it can.
                gap=self.params.gap if one or self.params.cutoff is None else 0.0,
                observer=None,
            )
            self.parts.append(SolveContext(part, params, self.clock, self._progress))
        checked: list[CheckedOutcome | None] = [None] * len(chain.parts)
        with self.clock.phase("solve"):
            for i in order:
                checked[i] = self._solve_part(chain.parts[i], self.parts[i])
                if checked[i].termination.reason is Reason.INFEASIBLE:  # type: ignore[union-attr]
                    break
        self.clock.finishing = True  # an interrupt from here on must not lose what was found
        done = [c for c in checked if c is not None]
        return self._combine(chain, done)

    def _solve_part(self, part: PlacementProblem, context: SolveContext) -> CheckedOutcome:
        if (reason := static_infeasibility(part)) is not None:
            return check_outcome(
                part,
                SolverOutcome(Termination(Reason.INFEASIBLE, detail=reason.detail), None, math.inf, reason),
                context,
            )
        if part.num_variables == 0:
            nothing = part.check_assignment(np.zeros(0, dtype=np.int32))
            cost = evaluate(part, nothing).objective
            cutoff = context.params.cutoff
            counts = cutoff is None or cost <= cutoff
            outcome = SolverOutcome(Termination(Reason.OPTIMAL), nothing if counts else None, float(cost))
            return check_outcome(part, outcome, context)
        try:
            outcome = self.named.run(part, context.params, self.named.options, context)
        except KeyboardInterrupt:
            self.clock.interrupted = True
            outcome = SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.INTERRUPTED, "interrupted"))
        except MemoryError as error:
            outcome = SolverOutcome(Termination(Reason.NO_SOLUTION_FOUND, Limit.MEMORY, str(error) or "out of memory"))
        except BerthageError:
            raise
        except Exception as error:
            raise PluginError(f"solver {self.named.name!r} failed: {type(error).__name__}: {error}") from error
        if not isinstance(outcome, SolverOutcome):
            raise PluginError(f"solver {self.named.name!r} returned {type(outcome).__name__}, not a SolverOutcome")
        check_shape(self.named.name, outcome)
        for key, value in outcome.stats.items():
            before = self.stats.get(key)
            both = isinstance(value, int | float) and isinstance(before, int | float) and not isinstance(value, bool)
            self.stats[key] = before + value if both else value  # type: ignore[operator]
        return check_outcome(part, outcome, context)

    def _combine(self, chain: ReductionChain, parts: list[CheckedOutcome]) -> CheckedOutcome:
        """The whole problem's outcome from its parts'."""
        if not parts:
            only = chain.lift([])
            cost = evaluate(self.problem, only).objective
            return CheckedOutcome(Termination(Reason.OPTIMAL), only, cost, float(cost), None)
        for part in parts:
            if part.termination.reason is Reason.INFEASIBLE:
                return replace(part, assignment=None, objective=None, bound=math.inf)
        bound = (
            math.fsum(part.bound for part in parts) - chain.bound_error
            if all(p.bound > -math.inf for p in parts)
            else -math.inf
        )
        assignment: Int32Array | None = None
        objective: int | float | None = None
        if all(part.assignment is not None for part in parts):
            assignment = chain.lift([part.assignment for part in parts if part.assignment is not None])
            objective = evaluate(self.problem, assignment).objective
        worst = max((part.termination for part in parts), key=lambda t: _SEVERITY.index(t.reason))
        return CheckedOutcome(worst, assignment, objective, bound, None)

    def _whole_outcome(self, checked: CheckedOutcome) -> CheckedOutcome:
        """The final check on the original problem, with every assignment known for it."""
        claim, assignment, cutoff = checked.termination, checked.assignment, self.params.cutoff
        if assignment is not None and cutoff is not None and evaluate(self.problem, assignment).objective > cutoff:
            assignment = None
            if checked.bound > cutoff:
                detail = f"no assignment costs {cutoff} or less: the bound is {checked.bound}"
                claim = Termination(Reason.INFEASIBLE, detail=detail)
            elif claim.reason in (Reason.OPTIMAL, Reason.FEASIBLE):
                detail = (
                    f"what was found costs more than {cutoff}, and the bound {checked.bound} does not exclude better"
                )
                claim = Termination(Reason.NO_SOLUTION_FOUND, claim.limit or Limit.OTHER, claim.detail or detail)
        if claim.reason is Reason.NUMERICAL_ERROR:
            if assignment is not None:
                self.whole.incumbent(assignment)
            return replace(checked, assignment=self.whole.best_assignment, objective=self.whole.best_objective)
        bound = checked.bound
        if claim.reason is Reason.INFEASIBLE and cutoff is not None and bound == math.inf:
            bound = float(cutoff)  # what is proved: nothing at or below the cutoff
        outcome = SolverOutcome(claim, assignment, bound, checked.infeasibility)
        return check_outcome(self.problem, outcome, self.whole)

    def _certify(self, checked: CheckedOutcome, name: str) -> CheckedOutcome:
        with self.clock.phase("certify"):
            limit = None if self.params.time_limit is None else self.clock.remaining()
            other = _Run(
                self.problem,
                SolveParams(time_limit=limit, seed=self.params.seed, threads=self.params.threads),
                _named(name, None, self.registry),
                self.registry,
            )
            found = other.result(True, None)
        self.stats["certified_by"] = name
        self.stats["certified_bound"] = found.bound
        if found.bound <= checked.bound:
            return checked
        outcome = SolverOutcome(checked.termination, checked.assignment, found.bound, checked.infeasibility)
        return check_outcome(self.problem, outcome, self.whole)

    def _explain(self, checked: CheckedOutcome, presolve: bool | Sequence[str | Reduction]) -> CheckedOutcome:
        """Name a smallest set of removable constraints that clash, unless the known reason names such a set already."""
        known = checked.infeasibility
        names = self.problem.constraint_names
        explaining = Clock(min(EXPLAIN_SECONDS, self.clock.remaining()))
        base = feasibility_problem(self.problem)
        base_names = set(base.constraint_names)
        witness: list[Int32Array] = []

        def infeasible(kept: Sequence[str]) -> bool | None:
            if explaining.remaining() <= 0.0 or self.clock.interrupted:
                return None
            trial = base.without(*sorted(base_names - set(kept))).problem
            if static_infeasibility(trial) is not None:
                return True
            run = _Run(
                trial,
                SolveParams(time_limit=explaining.remaining(), gap=math.inf, seed=self.params.seed),
                self.named,
                self.registry,
            )
            feasible = run._feasible(presolve)
            if feasible and len(kept) == len(base_names) and run.whole.best_assignment is not None:
                witness.append(run.whole.best_assignment)
            return None if feasible is None else not feasible

        least = Clock(min(LEAST_SECONDS, explaining.remaining()))

        def bare(trial: PlacementProblem) -> CheckedOutcome | None:
            found = None
            able = [*_exact_solvers(self.registry, self.named.name), None]  # None: the one that was asked
            for shares, name in zip(range(len(able), 0, -1), able, strict=True):
                if (left := least.remaining()) <= 0.0 or self.clock.interrupted:
                    break
                params = SolveParams(time_limit=left / shares, seed=self.params.seed)  # another may know better
                with suppress(BerthageError):
                    named = self.named if name is None else _named(name, None, self.registry)
                    outcome = _Run(trial, params, named, self.registry)._bare(presolve)
                    if outcome is not None and outcome.termination.reason in (Reason.OPTIMAL, Reason.INFEASIBLE):
                        return outcome
                    found = outcome if outcome is not None and outcome.assignment is not None else found
            return found

        with self.clock.phase("explain"):
            named = known.constraints if known is not None else ()
            met = bool(named) and set(named) <= base_names and infeasible(named)
            everything = True if known is not None else infeasible(sorted(base_names))
            if witness and self.params.cutoff is None:  # the second opinion shows that the first was wrong
                return check_outcome(self.problem, SolverOutcome(checked.termination, witness[0]), self.whole)
            clash = None
            if everything and not met:
                clash = clashing_constraints([n for n in names if n in base_names], infeasible)
            found = known
            if everything is False and self.params.cutoff is not None:
                found = Infeasibility(
                    f"no assignment costs {self.params.cutoff} or less (the constraints alone can be met)"
                )
            elif clash and known is not None:
                detail = f"{describe_clash(self.problem, clash)}: {known.detail}"
                found = replace(known, constraints=clash, detail=detail)
            elif clash is not None and known is None:
                found = Infeasibility(f"{self.named.name} finds that {describe_clash(self.problem, clash)}", clash)
            elif known is None:
                found = Infeasibility(checked.termination.detail or f"{self.named.name} finds no assignment", names)
            assert found is not None  # one of the cases above
            if met or clash:
                found = with_least_limit(self.problem, found, bare)
        return replace(checked, infeasibility=found, termination=Termination(Reason.INFEASIBLE, detail=found.detail))

    def _feasible(self, presolve: bool | Sequence[str | Reduction]) -> bool | None:
        """Whether the problem has any assignment; None when it is not known."""
        checked = self._bare(presolve)
        if checked is None:
            return None
        if checked.assignment is not None:
            self.whole.incumbent(checked.assignment)
            return True
        return False if checked.termination.reason is Reason.INFEASIBLE else None

    def _bare(self, presolve: bool | Sequence[str | Reduction]) -> CheckedOutcome | None:
        """The outcome without explanations; None when a solver cannot, or was interrupted."""
        try:
            if (reason := static_infeasibility(self.problem)) is not None:
                return _refuted(reason)
            chain = self._reduce(presolve)
            return self._solve_parts(chain) if chain.infeasibility is None else _refuted(chain.infeasibility)
        except (BerthageError, KeyboardInterrupt):
            return None

    # -- progress --------------------------------------------------------------------------------

    def _progress(self, event: str, _: SolveContext) -> None:
        objectives = [part.best_objective for part in self.parts]
        known = [objective for objective in objectives if objective is not None]
        objective = exact_sum(known) if len(known) == len(objectives) else None
        bound = (
            math.fsum(p.best_bound for p in self.parts)
            if all(p.best_bound > -math.inf for p in self.parts)
            else -math.inf
        )
        if self.problem.is_integral:
            bound = integral_bound(bound)
        self._tell(event, objective, bound)

    def _tell(self, event: str, objective: int | float | None, bound: float) -> None:
        now = self.clock.elapsed()
        self.trace.append(TracePoint(now, objective, bound))
        progress = Progress(event, now, objective, bound, self.named.name, self.problem.name)
        if self.params.observer is not None:
            self.params.observer(progress)
        self.registry.emit(event, progress)


_SEVERITY = (
    Reason.OPTIMAL,
    Reason.FEASIBLE,
    Reason.NO_SOLUTION_FOUND,
    Reason.NOT_INTEGRAL,
    Reason.NUMERICAL_ERROR,
    Reason.INFEASIBLE,
)


def _refuted(reason: Infeasibility) -> CheckedOutcome:
    return CheckedOutcome(Termination(Reason.INFEASIBLE, detail=reason.detail), None, None, math.inf, reason)


def _loosened(cutoff: int | float | None, error: float) -> int | float | None:
    """A cutoff that rounding in a reduction cannot make too strict; the exact one is applied after lifting."""
    return cutoff if cutoff is None or error == 0.0 else cutoff + error


def _params(params: SolveParams | None, shortcuts: Mapping[str, Any]) -> SolveParams:
    known = [field.name for field in fields(SolveParams)]
    for name in shortcuts:
        if name not in known:
            raise OptionError(
                f"solve() has no parameter {name!r}; parameters are {', '.join(known)}; "
                "a solver's own options go into options="
            )
    return replace(params or SolveParams(), **shortcuts)


def _exact_solvers(registry: Registry, but: str) -> Iterator[str]:
    """Other solvers here that find the optimum under soft budgets."""
    able = {Capability.EXACT, Capability.LINEAR_BUDGETS, Capability.INTERVAL_BUDGETS, Capability.SOFT_BUDGETS}
    for info in registry.solvers:
        if able <= info.capabilities and info.name != but and not registry.unavailable_reason(info):
            yield info.name


def _named(solver: str | Solver | Callable[..., SolverOutcome], options: Any, registry: Registry) -> _Named:
    if isinstance(solver, str):
        info: SolverInfo = registry.solver(solver)
        return _Named(info.name, info.version, registry.create_solver(info.name).solve, build_options(info, options))
    if options is not None and not is_dataclass(options) and not isinstance(options, Mapping):
        raise OptionError(f"options are a mapping or a dataclass instance, got {type(options).__name__}")
    run = getattr(solver, "solve", solver)
    if not callable(run):
        raise OptionError(
            f"a solver is a name, an object with a solve method, or a callable; got {type(solver).__name__}"
        )
    name = getattr(solver, "name", None) or getattr(solver, "__name__", None) or type(solver).__name__
    return _Named(str(name), str(getattr(solver, "version", "")), run, options)
