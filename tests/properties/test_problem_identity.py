"""Identity by content: equality, digests, stability across processes, and saving and loading."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from hypothesis import given, settings

from berthage import PlacementProblem, ProblemBuilder, read_problem, write_problem
from berthage.testing import format_conformance
from berthage.testing.strategies import ALL_FEATURES, Feature, problems

TestNativeFormat = format_conformance(
    "berthage", lossless=True, features=ALL_FEATURES - {Feature.LAZY_TABLES}, max_examples=40
)


@given(problems(features=ALL_FEATURES - {Feature.LAZY_TABLES}))
def test_saving_and_loading_is_the_identity(problem: PlacementProblem) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.berthage"
        write_problem(problem, path)
        again = read_problem(path)
    assert again == problem
    assert hash(again) == hash(problem)
    assert again.digest == problem.digest
    assert type(again.constant) is type(problem.constant)
    for ours, theirs in zip(again.label_sets, problem.label_sets, strict=True):
        assert ours.names == theirs.names
        assert np.array_equal(ours.coordinates, theirs.coordinates) or ours.coordinates is theirs.coordinates
    assert [t.kind for t in again.tables] == [t.kind for t in problem.tables]


@given(problems(min_variables=1))
def test_any_change_changes_the_digest(problem: PlacementProblem) -> None:
    costs = problem.unary.copy()
    costs[-1] = 12345.0
    changed = [
        replace(problem, name="other"),
        replace(problem, constant=problem.constant + 1),
        replace(problem, variable_names=(*problem.variable_names[:-1], "renamed")),
        replace(problem, unary=costs),
        replace(problem, multiplicity=problem.multiplicity + 1),
    ]
    digests = {problem.digest, *(p.digest for p in changed)}
    assert len(digests) == 1 + len(changed)
    assert all(p != problem for p in changed)
    assert problem == replace(problem)


def _build() -> PlacementProblem:
    b = ProblemBuilder("stable")
    for v in "abc":
        b.add_variable(v, ["R", "S(0)"], [1, 2**60 + 1], coordinates=[[0], [1]])
    b.add_pairwise("a", "b", [[0.5, 1], [np.inf, 0]], name="edge")
    b.tie("b", "c", name="same")
    b.add_budget("memory", {"a": [1, 2], "c": [3, 4]}, upper=5)
    b.add_interval_budget("peak", [("a", 0, 2, [1, 2])], limit=9, price=3)
    return b.build()


@settings(max_examples=1)
@given(problems(max_variables=0))
def test_the_empty_problem_has_a_digest(problem: PlacementProblem) -> None:
    assert len(problem.digest) == 64


def test_the_digest_is_the_same_in_every_process() -> None:
    script = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from test_problem_identity import _build\n"
        "print(_build().digest, hash(_build()))"
    )
    answers = set()
    for seed in ("0", "1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(Path(__file__).parent)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        answers.add(done.stdout)
    assert answers == {f"{_build().digest} {hash(_build())}\n"}
