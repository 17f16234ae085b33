"""What the kit runs in a process of its own, by path: ``python -P child.py MODE JSON``; answers in JSON.

It imports berthage and no test library, so that it starts quickly.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from typing import Any

Request = dict[str, Any]


def imported_by_hooks(request: Request) -> Any:
    """Top-level modules that importing a plugin's hooks module adds to what berthage itself imports."""
    importlib.import_module("berthage")
    before = set(sys.modules)
    importlib.import_module(request["module"])
    return sorted({name.partition(".")[0] for name in set(sys.modules) - before})


def solve_several(request: Request) -> Any:
    """Solve problem files; digests and answers."""
    from berthage import read_problem, solve

    answers = []
    for path in request["files"]:
        problem = read_problem(path)
        result = solve(
            problem,
            request["solver"],
            options=request["options"],
            threads=request["threads"],
            time_limit=request["time_limit"],
            presolve=request["presolve"],
        )
        labels = None if result.assignment is None else result.assignment.tolist()
        answers.append([problem.digest, labels, str(result.objective), result.termination.reason.value])
    return answers


def interrupt(request: Request) -> Any:
    """Solve a problem far too hard, send this process a SIGINT on the way, and report what came back."""
    from berthage import read_problem, solve

    def run(path: str) -> Any:
        problem = read_problem(path)
        begin = time.perf_counter()
        result = solve(problem, request["solver"], options=request["options"], time_limit=60.0, presolve=False)
        return result, time.perf_counter() - begin

    run(request["warm_up"])  # imports and compilation happen here
    timer = threading.Timer(request["after"], os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
    result, spent = run(request["file"])
    timer.cancel()
    feasible = None if result.evaluation is None else result.evaluation.feasible
    limit = None if result.termination.limit is None else result.termination.limit.value
    return {"reason": result.termination.reason.value, "limit": limit, "feasible": feasible, "seconds": spent}


def main() -> None:
    """Run one mode."""
    modes = {"hooks": imported_by_hooks, "solve": solve_several, "interrupt": interrupt}
    answer = modes[sys.argv[1]](json.loads(sys.argv[2]))
    sys.stdout.write("\n" + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
