"""Checks that need a process of their own: hash seeds, thread counts, interruption, and light hooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from berthage import Capability
from berthage.testing.kit.checks import Check, check
from berthage.testing.kit.child import hooks_modules
from berthage.testing.kit.solver_kit import SolverKit
from berthage.testing.known import known_answers

__all__ = ["PROCESS_CHECKS", "run_child", "verify_light_hooks"]


def run_child(mode: str, request: dict[str, Any], *, hash_seed: int = 0, timeout: float = 180.0) -> Any:
    """Run a mode of `berthage.testing.kit.child` in a fresh interpreter and return its answer."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-m", "berthage.testing.kit.child", mode, json.dumps(request)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, f"the process ended with {done.returncode}:\n{done.stderr[-4000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])


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
    cases = [
        number for number, case in enumerate(known_answers()) if kit.needs_of(case.problem) <= kit.info.capabilities
    ]
    answers = [
        run_child("solve", {**_request(kit), "cases": cases, "threads": threads}, hash_seed=seed)
        for seed, threads in ((1, 1), (2, 2))
    ]
    assert answers[0] == answers[1]


@check()
def interruption_returns_the_incumbent(kit: SolverKit) -> None:
    """Ctrl-C during a long solve gives back, within seconds, what was found so far."""
    _needs_installed(kit)
    answer = run_child("interrupt", {**_request(kit), "after": 1.0})
    assert answer["seconds"] <= 6.0, f"back only after {answer['seconds']:.1f} s"
    if answer["reason"] in ("feasible", "no_solution_found"):
        assert answer["limit"] in ("interrupted", "converged"), f"{answer}"
    if Capability.ANYTIME in kit.info.capabilities:
        assert answer["feasible"], f"an anytime solver came back with nothing: {answer}"


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
