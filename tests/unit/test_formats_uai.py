"""UAI files: both dialects, evidence, and what is refused where."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from berthage import (
    InvalidProblemError,
    OptionError,
    PlacementProblem,
    ProblemBuilder,
    UnsupportedProblemError,
    evaluate,
)
from berthage_formats.uai import UaiFormat

MODEL = """MARKOV
2
2 3
3
0
1 0
2 0 1
1
 0.5
2
 0.25 1
6
 0.1 0.2 0
 1 2 3
"""


def read(tmp_path: Path, text: str, **options: Any) -> PlacementProblem:
    path = tmp_path / "model.uai"
    path.write_text(text)
    return UaiFormat().read(path, **options)


def test_potentials_become_costs(tmp_path: Path) -> None:
    problem = read(tmp_path, MODEL)
    assert problem.name == "model"
    assert problem.variable_names == ("x0", "x1")
    assert evaluate(problem, [0, 1]).objective == pytest.approx(-math.log(0.5 * 0.25 * 0.2))
    assert evaluate(problem, [1, 2]).objective == pytest.approx(-math.log(0.5 * 1 * 3))
    assert evaluate(problem, [0, 2]).objective == math.inf


def test_a_potential_of_zero_can_stand_for_a_cost(tmp_path: Path) -> None:
    problem = read(tmp_path, MODEL, zero="1e6")
    assert evaluate(problem, [0, 2]).objective == pytest.approx(1e6 - math.log(0.5 * 0.25))
    assert read(tmp_path, MODEL, zero=1e6) == problem


def test_costs_are_taken_as_they_are(tmp_path: Path) -> None:
    problem = read(tmp_path, MODEL, values="cost")
    assert evaluate(problem, [0, 1]).objective == pytest.approx(0.5 + 0.25 + 0.2)
    assert evaluate(problem, [0, 2]).objective == pytest.approx(0.75)


def test_large_whole_costs_stay_exact(tmp_path: Path) -> None:
    big = 2**57 + 1
    text = f"MARKOV 2 2 1 3 0 1 0 2 1 0 1 7 2 {big} {-big} 2 {big} 4"
    problem = read(tmp_path, text, values="cost")
    assert evaluate(problem, [0, 0]).objective == 7 + 2 * big
    assert evaluate(problem, [1, 0]).objective == 7 - big + 4
    assert evaluate(read(tmp_path, "MARKOV 1 2 1 1 0 2 1e300 1", values="cost"), [0]).objective == 1e300


def test_bayes_files_self_edges_and_single_labels(tmp_path: Path) -> None:
    problem = read(tmp_path, "BAYES 2 1 2 2 2 1 1 2 1 0 4 1 2 3 4 2 5 6", values="cost")
    assert problem.num_edges == 1
    assert evaluate(problem, [0, 0]).objective == 1 + 5
    assert evaluate(problem, [0, 1]).objective == 4 + 6


@pytest.mark.parametrize("text", ["1 0 1", "1\n1 0 1", "1 1 0 1"])
def test_evidence_fixes_variables_and_can_be_removed(tmp_path: Path, text: str) -> None:
    evidence = tmp_path / "model.uai.evid"
    evidence.write_text(text)
    problem = read(tmp_path, MODEL, evidence=str(evidence))
    assert evaluate(problem, [1, 0]).feasible
    assert [v.name for v in evaluate(problem, [0, 0]).violations] == ["evidence x0"]
    assert read(tmp_path, MODEL, evidence="auto") == problem
    assert read(tmp_path, MODEL) == problem.without("evidence x0").problem


def test_without_an_evidence_file_auto_does_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, MODEL, evidence="auto") == read(tmp_path, MODEL)
    (tmp_path / "model.uai.evid").write_text("0")
    assert not read(tmp_path, MODEL, evidence="auto").has_relations


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("2 0 1 0 0", "label 1 of variable 0, as observed before"),
        ("1 5 0", "line 1: expected a variable from 0 to 1, found '5'"),
        ("1 0 9", "expected a label of variable 0 from 0 to 1, found '9'"),
        ("2 0 1", "expected 2 pairs of variable and label, the file ends"),
    ],
)
def test_broken_evidence_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    evidence = tmp_path / "e.evid"
    evidence.write_text(text)
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        read(tmp_path, MODEL, evidence=str(evidence))
    evidence.write_text("3\n0\n0\n0")
    with pytest.raises(UnsupportedProblemError, match="3 samples"):
        read(tmp_path, MODEL, evidence=str(evidence))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1: expected MARKOV or BAYES, the file ends"),
        ("MARKOV 10 2", "line 1: expected the number of labels of variable 1, the file ends"),
        ("MARKOW 1 2 0", "line 1: expected MARKOV or BAYES, found 'MARKOW'"),
        (MODEL.replace("2 3", "2 0"), "line 3: expected the number of labels of variable 1, found '0'"),
        (MODEL.replace("2 3", "2 1000000000000"), "max_cells"),
        (MODEL.replace("2 0 1", "2 0 2"), "line 7: expected a variable of factor 2, 0 to 1, found '2'"),
        (MODEL.replace("6\n", "5\n"), "line 12: expected 6, the size of the table of factor 2, found '5'"),
        (MODEL.replace(" 0.2 ", " 0.x2 "), "line 13: expected a number, found '0.x2'"),
        (MODEL.replace(" 0.2 ", " 1-2 "), "line 13: expected a number, found '1-2'"),
        (MODEL.replace(" 0.2 ", " 1_0 "), "line 13: expected a number, found '1_0'"),
        (MODEL.replace(" 0.2 ", " nan "), "line 13: expected a number, not NaN, found 'nan'"),
        (MODEL.replace(" 0.2 ", " -0.2 "), "(if the file holds costs, say values=cost), found '-0.2'"),
        (MODEL.replace("1 2 3", "1 2"), "line 15: expected 6 values of factor 2, the file ends"),
        (MODEL + "7\n", "line 15: expected the end of the file after the last table, found '7'"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        read(tmp_path, text)


@pytest.mark.parametrize("word", ["-inf", "nan", "1e999"])
def test_costs_that_are_none_are_refused(tmp_path: Path, word: str) -> None:
    with pytest.raises(InvalidProblemError, match="line 13: expected a"):
        read(tmp_path, MODEL.replace(" 0.2 ", f" {word} "), values="cost")
    assert evaluate(read(tmp_path, MODEL.replace(" 0.2 ", " inf "), values="cost"), [0, 1]).objective == math.inf


def test_three_variables_in_a_factor_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedProblemError, match="line 1: factor 0 joins 3 variables"):
        read(tmp_path, "MARKOV 3 1 1 1 1 3 0 1 2 1 5")


def test_unknown_options_are_refused(tmp_path: Path) -> None:
    for options in (
        {"values": "costs"},
        {"zero": "never"},
        {"zero": "nan"},
        {"value": "cost"},
        {"max_bytes": 0},
    ):
        with pytest.raises(OptionError):
            read(tmp_path, MODEL, **options)


def mixed() -> PlacementProblem:
    b = ProblemBuilder("mixed")
    x = b.add_variable("x", ["a", "b"], [1, 2**55 + 1], multiplicity=3)
    y = b.add_variable("y", 2, [0.1, float("inf")])
    z = b.add_variable("z", 2, [-4, 5])
    b.add_pairwise(x, z, [[1, 2], [3, float("inf")]], multiplicity=5)
    b.add_pairwise(y, x, [[1 / 3, 2], [3, 4]])
    b.forbid_pairs(x, y, [(0, 1)])
    b.add_constant(-7)
    return b.build()


def test_written_costs_read_back_exactly(tmp_path: Path) -> None:
    original = mixed()
    UaiFormat().write(original, tmp_path / "m.uai.gz", values="cost")
    again = UaiFormat().read(tmp_path / "m.uai.gz", values="cost")
    for a in itertools.product(range(2), repeat=3):
        before, after = evaluate(original, a), evaluate(again, a)
        assert after.feasible == before.feasible
        if before.feasible:
            assert after.objective == before.objective
    UaiFormat().write(again, tmp_path / "m2.uai", values="cost")
    twice = UaiFormat().read(tmp_path / "m2.uai", values="cost")
    assert np.array_equal(twice.unary, again.unary)
    assert (tmp_path / "m2.uai").read_text().splitlines()[1:3] == ["3", "2 2 2"]


def test_written_potentials_read_back_within_rounding(tmp_path: Path) -> None:
    b = ProblemBuilder("p")
    x = b.add_variable("x", 2, [0.5, 30])
    y = b.add_variable("y", 2)
    b.add_pairwise(x, y, [[-3, float("inf")], [0, 1]])
    original = b.build()
    UaiFormat().write(original, tmp_path / "p.uai")
    again = UaiFormat().read(tmp_path / "p.uai")
    for a in itertools.product(range(2), repeat=2):
        assert evaluate(again, a).objective == pytest.approx(evaluate(original, a).objective, rel=1e-12)
    b.add_unary("x", [0, 1e4])
    with pytest.raises(UnsupportedProblemError, match="values=cost"):
        UaiFormat().write(b.build(), tmp_path / "p.uai")


def test_budgets_are_refused(tmp_path: Path) -> None:
    b = ProblemBuilder("p")
    b.add_variable("x", 2)
    b.add_budget("weight", {"x": [1, 2]}, upper=1)
    with pytest.raises(UnsupportedProblemError, match="weight"):
        UaiFormat().write(b.build(), tmp_path / "p.uai")


def test_map_answers_are_read_and_written(tmp_path: Path) -> None:
    problem = read(tmp_path, MODEL)
    path = tmp_path / "answer"
    UaiFormat().write_solution(path, problem, [1, 2])
    assert UaiFormat().read_solution(path, problem).tolist() == [1, 2]
    for text in ("MPE\n1\n2 1 2\n", "2 1 2"):
        path.write_text(text)
        assert UaiFormat().read_solution(path, problem).tolist() == [1, 2]
    for text in ("MAP\n2 1 3", "MAP\n3 1 2 0", "MAP\n2 1", "MAP\n2 1 2 0 0"):
        path.write_text(text)
        with pytest.raises(InvalidProblemError):
            UaiFormat().read_solution(path, problem)
