"""What a command says while it solves, and of a problem without a solution."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from berthage import Infeasibility
from berthage.cli import live
from berthage.cli.words import infeasibility_lines


def test_an_infeasibility_is_told_in_full() -> None:
    live = tuple(f"v{i}" for i in range(20))
    lines = list(infeasibility_lines(Infeasibility("too full", ("memory",), 7, live, 13084116)))
    assert lines[1:3] == ["clash      memory", "instant    7"]
    assert lines[3].endswith("v7 and 12 more")
    assert "no solution exists below 13084116" in lines[4]


class TestLiveLine:
    def test_it_is_silent_where_nobody_watches(self) -> None:
        out = io.StringIO()
        with live.live_line("x", Console(file=out)) as observer:
            assert observer is None
        assert out.getvalue() == ""

    def test_it_shows_objective_bound_gap_and_elapsed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        clock = iter([100.0, 100.1, 103.0, 104.2])
        monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: next(clock)))
        line = live.LiveLine("brute")
        assert line.text() == ""
        assert line.text() == "brute  3 s"
        line.observe(live.Progress("bound", 1.0, 200, 150.0, "brute", "p"))
        assert line.text() == "brute  objective 200  bound 150  gap 25 %  4 s"
