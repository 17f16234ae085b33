"""Checks that need a process of their own: hash seeds, thread counts, interruption, and light hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from berthage import Capability, PlacementProblem, write_problem
from berthage.testing.hard import hard_problem
from berthage.testing.kit import child
from berthage.testing.kit.checks import Check, check
from berthage.testing.kit.solver_kit import SolverKit
from berthage.testing.known import known_answers

__all__ = ["PROCESS_CHECKS", "run_child", "verify_light_hooks"]


def run_child(mode: str, request: dict[str, Any], *, hash_seed: int = 0, timeout: float = 180.0) -> Any:
    """Run a mode of `berthage.testing.kit.child` in a fresh interpreter and return its answer."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-P", child.__file__, mode, json.dumps(request)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"the process ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


def hooks_modules(package: str) -> list[str]:
    """The modules of installed entry points of group ``berthage`` that lie in a top-level package."""
    found = {point.module for point in entry_points(group="berthage")}
    return sorted(name for name in found if name.partition(".")[0] == package)


def verify_light_hooks(target: str) -> None:
    """A target's plugin has hooks modules that import berthage, numpy and the standard library only."""
    package = target.partition(".")[0].partition(":")[0]
    allowed = {package, "berthage", "numpy", "pluggy", *sys.stdlib_module_names}
    modules = hooks_modules(package)
    if not modules:
        pytest.skip(f"no installed entry point of group 'berthage' lies in {package}")
    for module in modules:
        heavy = [name for name in run_child("hooks", {"module": module}) if name not in allowed]
        assert not heavy, f"importing {module} imports {heavy}; name them in a target instead"


@check()
def hooks_are_light(kit: SolverKit) -> None:
    """Listing solvers imports the plugin's hooks module, which imports nothing heavy."""
    verify_light_hooks(kit.info.target)


@check()
def same_answer_in_every_process(kit: SolverKit) -> None:
    """Neither the hash seed nor the number of threads changes an answer."""
    _needs_installed(kit)
    chosen = [case.problem for case in known_answers() if kit.needs_of(case.problem) <= kit.info.capabilities]
    chosen = [problem for problem in chosen if not any(table.kind == "lazy" for table in problem.tables)]
    chosen += [hard_problem(variables=6, labels=3, seed=seed) for seed in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        files = [_write(problem, folder, f"{i}") for i, problem in enumerate(chosen)]
        request = {**_request(kit), "files": files, "presolve": False}
        first = run_child("solve", {**request, "threads": 1}, hash_seed=1)
        second = run_child("solve", {**request, "threads": 2}, hash_seed=2)
    assert [answer[0] for answer in first] == [problem.digest for problem in chosen]
    assert first == second


@check()
def interruption_returns_the_incumbent(kit: SolverKit) -> None:
    """Ctrl-C during a long solve gives back, within seconds, what was found so far."""
    _needs_installed(kit)
    with tempfile.TemporaryDirectory() as folder:
        warm_up = _write(hard_problem(variables=4, labels=2), folder, "warm-up")
        request = {**_request(kit), "warm_up": warm_up, "file": _write(hard_problem(), folder, "hard"), "after": 1.0}
        answer = run_child("interrupt", request)
    assert answer["seconds"] <= 6.0, f"back only after {answer['seconds']:.1f} s"
    if answer["reason"] in ("feasible", "no_solution_found"):
        assert answer["limit"] in ("interrupted", "converged"), f"{answer}"
    if Capability.ANYTIME in kit.info.capabilities:
        assert answer["feasible"], f"an anytime solver came back with nothing: {answer}"


def _write(problem: PlacementProblem, folder: str, stem: str) -> str:
    path = str(Path(folder) / f"{stem}.berthage")
    write_problem(problem, path)
    return path


def _request(kit: SolverKit) -> dict[str, Any]:
    return {"solver": kit.name, "options": dict(kit.options), "time_limit": kit.time_limit}


def _needs_installed(kit: SolverKit) -> None:
    if kit.given_registry is not None:
        pytest.skip("the solver is not installed but given by a registry, which another process cannot see")


PROCESS_CHECKS: tuple[Check, ...] = (
    hooks_are_light,
    same_answer_in_every_process,
    interruption_returns_the_incumbent,
)
