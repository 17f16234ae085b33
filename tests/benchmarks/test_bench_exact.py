"""``exact`` beside toulbar2, one after the other in one run, both behind the same presolve.

CPU seconds of this process and its children, without compilation; of toulbar2, starting its process is included.
What is asserted is that `exact` proves the known optimum within a minute, and that toulbar2 agrees where it proves one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from exact_instances import IOPDDL, MAP, SHARDING, read_instance

from berthage import Reason, SolveResult, UnsupportedProblemError, solve

pytestmark = pytest.mark.bench
pytest.importorskip("berthage_exact")
pytest.importorskip("berthage_formats")


def spent(result: SolveResult) -> float:
    compiling = result.timings.get("compile")
    return result.timings["total"].cpu - (compiling.cpu if compiling else 0.0)


def test_exact_beside_toulbar2(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pytoulbar2")
    lines = []
    solve(read_instance(shared_data, "celar6sub0")[0], "exact")  # warm-up
    for name in (*SHARDING, *MAP, *IOPDDL):
        problem, optimum = read_instance(shared_data, name)
        mine = solve(problem, "exact", time_limit=60)
        assert mine.termination.reason is Reason.OPTIMAL
        assert mine.objective == pytest.approx(optimum, rel=1e-7, abs=1e-6)
        row = f"| {name} | {spent(mine):.2f} | {mine.stats.get('nodes', 0)} |"
        try:
            theirs = solve(problem, "toulbar2", time_limit=60)
        except UnsupportedProblemError:
            lines.append(f"{row} takes no budgets |")  # presolve drops those that cannot bind
            continue
        if theirs.termination.reason is Reason.OPTIMAL:
            assert theirs.objective == pytest.approx(optimum, rel=1e-7, abs=1e-6)
            lines.append(f"{row} {spent(theirs):.2f} |")
        else:
            lines.append(f"{row} {theirs.termination.limit} after {theirs.timings['total'].wall:.0f} s |")
    with capsys.disabled():
        print("\n| instance | exact, CPU s | nodes | toulbar2, CPU s |\n|---|---|---|---|")
        print("\n".join(lines))
