"""Solves on several threads at once, and a process that ends while an engine is still busy."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from berthage import ProblemBuilder, write_problem

TOGETHER = """
    import os, sys, threading
    from berthage import ProblemBuilder, solve

    builder = ProblemBuilder("small")
    for name in "ab":
        builder.add_variable(name, 2, [10, 14])
    builder.add_pairwise(0, 1, [[0, 1], [2, 3]])
    problem = builder.build()
    found = []
    start = threading.Barrier(6)

    def work(solver):
        start.wait()
        for _ in range(4):
            found.append(solve(problem, solver, presolve=False).objective)

    threads = [threading.Thread(target=work, args=(solver,)) for solver in sys.argv[1:] * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [20] * 24, found
    os.write(1, b"still here")
"""


@pytest.mark.parametrize("solvers", [("ilp-pyomo", "ilp-pyomo"), ("ilp-pyomo", "ilp-pulp"), ("ilp-pulp", "lp")])
def test_solves_on_several_threads_do_not_wait_for_each_other(solvers: tuple[str, str]) -> None:
    command = [sys.executable, "-c", textwrap.dedent(TOGETHER), *solvers]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "still here"


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of 55 x 55 variables with 20 labels: minutes of work for an engine."""
    rng = np.random.default_rng(0)
    side, labels = 55, 20
    builder = ProblemBuilder("grid")
    for i in range(side * side):
        builder.add_variable(f"v{i}", labels, rng.integers(0, 100, labels))
    for i in range(side):
        for j in range(side):
            for below in ((i + 1, j), (i, j + 1)):
                if max(below) < side:
                    pair = rng.integers(0, 100, (labels, labels))
                    builder.add_pairwise(i * side + j, below[0] * side + below[1], pair)
    path = tmp_path_factory.mktemp("large") / "grid.berthage"
    write_problem(builder.build(), path)
    return path


ENDING = """
    import sys, time
    from berthage import read_problem, solve

    problem = read_problem(sys.argv[1])
    result = solve(problem, sys.argv[2], presolve=False, time_limit=float(sys.argv[3]), options=eval(sys.argv[4]))
    print(result.termination.limit.value, time.time(), flush=True)
    sys.exit(3)
"""


@pytest.mark.parametrize(
    ("solver", "options"),
    [("lp", {"method": "simplex"}), ("lp", {"method": "ipm"}), ("ilp-pulp", {"fixing": "off"})],
    ids=["lp-simplex", "lp-ipm", "ilp"],
)
def test_a_process_ends_soon_after_the_answer(large: Path, solver: str, options: dict[str, str]) -> None:
    limit = 4.0
    command = [sys.executable, "-c", textwrap.dedent(ENDING), str(large), solver, str(limit), repr(options)]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
    ended = time.time()
    assert done.returncode == 3, done.stderr
    why, told = done.stdout.split()
    assert why == "time"
    assert ended - float(told) < 1.5


RETURNING = """
    import sys, time
    import highspy
    import numpy as np
    from berthage.linear import EngineThread

    class Slow:
        def __del__(self):
            time.sleep(1.5)

    rng = np.random.default_rng(0)
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    size = 700
    for j in range(size):
        highs.addVar(0, 1)
        highs.changeColCost(j, -float(rng.random()))
    for _ in range(size):
        chosen = rng.choice(size, size // 4, replace=False).astype(np.int32)
        highs.addRow(-np.inf, 3, len(chosen), chosen, rng.random(len(chosen)))
    sys.modules["slow"] = Slow()
    EngineThread(highs, highs.run).start()
    sys.exit(3)
"""


def test_an_engine_that_returns_while_the_interpreter_goes_away_does_not_abort_the_process() -> None:
    command = [sys.executable, "-c", textwrap.dedent(RETURNING)]
    done = subprocess.run(command, capture_output=True, timeout=60, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "")
