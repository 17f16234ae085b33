"""Run in a process of its own: ``python -m berthage.testing.kit.child MODE JSON``; answers in JSON."""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from importlib.metadata import entry_points
from typing import Any

Request = dict[str, Any]


def imported_by_hooks(request: Request) -> Any:
    """Top-level modules that importing a plugin's hooks module adds to what berthage itself imports."""
    importlib.import_module("berthage")
    before = set(sys.modules)
    importlib.import_module(request["module"])
    return sorted({name.partition(".")[0] for name in set(sys.modules) - before})


def solve_several(request: Request) -> Any:
    """Solve the known answers by number and a few random problems; digests and answers."""
    from berthage import solve
    from berthage.testing.hard import hard_problem
    from berthage.testing.known import known_answers

    cases = known_answers()
    chosen = [cases[i].problem for i in request["cases"]]
    chosen += [hard_problem(variables=7, labels=3, seed=seed) for seed in range(3)]
    answers = []
    for problem in chosen:
        result = solve(
            problem,
            solver=request["solver"],
            options=request["options"],
            threads=request["threads"],
            time_limit=request["time_limit"],
        )
        labels = None if result.assignment is None else result.assignment.tolist()
        answers.append([problem.digest, labels, str(result.objective), result.termination.reason.value])
    return answers


def interrupt(request: Request) -> Any:
    """Solve a problem far too hard, send this process a SIGINT on the way, and report what came back."""
    from berthage import solve
    from berthage.testing.hard import hard_problem

    def run(problem: Any, limit: float) -> Any:
        return solve(problem, solver=request["solver"], options=request["options"], time_limit=limit)

    run(hard_problem(variables=4, labels=2), 60.0)  # imports and compilation happen here
    problem = hard_problem()
    timer = threading.Timer(request["after"], os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    begin = time.perf_counter()
    timer.start()
    result = run(problem, 60.0)
    spent = time.perf_counter() - begin
    timer.cancel()
    feasible = None if result.evaluation is None else result.evaluation.feasible
    limit = None if result.termination.limit is None else result.termination.limit.value
    return {"reason": result.termination.reason.value, "limit": limit, "feasible": feasible, "seconds": spent}


def hooks_modules(distribution_package: str) -> list[str]:
    """The modules of group ``berthage`` whose top-level package is the given one."""
    found = {point.module for point in entry_points(group="berthage")}
    return sorted(name for name in found if name.partition(".")[0] == distribution_package)


def main() -> None:
    """Run one mode."""
    modes = {"hooks": imported_by_hooks, "solve": solve_several, "interrupt": interrupt}
    answer = modes[sys.argv[1]](json.loads(sys.argv[2]))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
