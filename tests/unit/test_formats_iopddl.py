"""IOPDDL files: what they mean, what is refused, and that writing and reading agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from berthage import InvalidProblemError, PlacementProblem, ProblemBuilder, UnsupportedProblemError, evaluate
from berthage_formats.iopddl import IopddlFormat

FORBIDDEN = 10**18


def document(**changes: Any) -> dict[str, Any]:
    """Two nodes with two and one strategies, one edge, a limit; changed at the given dotted paths."""
    problem: dict[str, Any] = {
        "name": "two",
        "nodes": {
            "intervals": [[0, 4], [2, 6]],
            "costs": [[1, 2], [3]],
            "usages": [[5, 1], [2]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[10, 20]]},
        "usage_limit": 6,
    }
    for path, value in changes.items():
        *outer, last = path.split("__")
        part = problem
        for key in outer:
            part = part[key]
        if value is None:
            del part[last]
        else:
            part[last] = value
    return {"problem": problem}


def read(tmp_path: Path, data: Any) -> PlacementProblem:
    path = tmp_path / "problem.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return IopddlFormat().read(path)


def test_costs_and_usages_are_read(tmp_path: Path) -> None:
    problem = read(tmp_path, document())
    assert problem.variable_names == ("n0", "n1")
    assert problem.num_labels.tolist() == [2, 1]
    assert evaluate(problem, [1, 0]).objective == 2 + 3 + 20
    assert evaluate(problem, [1, 0]).feasible
    over = evaluate(problem, [0, 0])
    assert not over.feasible
    assert (over.budget_use[0].used, over.budget_use[0].instant) == (7, 2)


def test_the_contests_example(tmp_path: Path) -> None:
    data = {
        "problem": {
            "name": "example",
            "nodes": {
                "intervals": [[30, 70], [40, 70], [50, 120], [110, 140], [110, 150]],
                "costs": [[15], [55, 65], [25, 45, 35], [85, 75], [95]],
                "usages": [[10], [25, 25], [15, 20, 15], [10, 10], [15]],
            },
            "edges": {
                "nodes": [[0, 1], [0, 2], [1, 3], [2, 4], [3, 4]],
                "costs": [[30, 40], [50, 10, 40], [90, 10, 20, 80], [60, 20, 30], [70, 60]],
            },
            "usage_limit": 50,
        }
    }
    found = evaluate(read(tmp_path, data), [0, 0, 2, 1, 0])
    assert (found.objective, found.feasible, found.budget_use[0].used) == (445, True, 50)


def test_ten_to_the_eighteen_is_forbidden_and_nothing_below_is(tmp_path: Path) -> None:
    problem = read(tmp_path, document(nodes__costs=[[FORBIDDEN, FORBIDDEN - 1], [3]]))
    assert evaluate(problem, [0, 0]).objective == float("inf")
    assert evaluate(problem, [1, 0]).objective == FORBIDDEN - 1 + 3 + 20
    beyond = read(tmp_path, document(edges__costs=[[2**70, 2**60 - 1]]))
    assert evaluate(beyond, [0, 0]).objective == float("inf")


def test_integers_beyond_53_bits_are_exact(tmp_path: Path) -> None:
    big = 2**57 + 1
    problem = read(tmp_path, document(nodes__costs=[[big, 2], [3]], edges__costs=[[big, big + 2]]))
    assert evaluate(problem, [0, 0]).objective == big + 3 + big
    assert evaluate(problem, [1, 0]).objective == 2 + 3 + big + 2


def test_parallel_reversed_and_self_edges_add_up(tmp_path: Path) -> None:
    edges = [[0, 1], [0, 1], [1, 0], [0, 0]]
    costs = [[10, 20], [1, 2], [100, 200], [1000, 7, 7, 2000]]
    problem = read(tmp_path, document(edges__nodes=edges, edges__costs=costs))
    assert problem.num_edges == 3
    assert evaluate(problem, [1, 0]).objective == 2 + 3 + 20 + 2 + 200 + 2000


def test_equal_tables_are_shared(tmp_path: Path) -> None:
    same = document(edges__nodes=[[0, 1], [0, 1], [1, 0]], edges__costs=[[1, 2], [1, 2], [1, 2]])
    assert len(read(tmp_path, same).tables) == 2  # 2 x 1 and 1 x 2


def test_an_empty_interval_uses_nothing_and_no_limit_means_no_budget(tmp_path: Path) -> None:
    problem = read(tmp_path, document(nodes__intervals=[[0, 0], [2, 6]]))
    assert evaluate(problem, [0, 0]).budget_use[0].used == 2
    assert not read(tmp_path, document(usage_limit=None)).has_budgets


def test_nodes_touching_at_an_instant_are_not_live_together(tmp_path: Path) -> None:
    problem = read(tmp_path, document(nodes__intervals=[[0, 4], [4, 6]]))
    assert evaluate(problem, [0, 0]).budget_use[0].used == 5


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".json.xz", ".json.bz2"])
def test_compression_is_looked_through(tmp_path: Path, suffix: str) -> None:
    problem = read(tmp_path, document())
    path = tmp_path / f"again{suffix}"
    IopddlFormat().write(problem, path)
    assert IopddlFormat().read(path) == problem


def test_a_written_problem_means_the_same(tmp_path: Path) -> None:
    b = ProblemBuilder("mixed")
    x = b.add_variable("x", ["a", "b"], [1, 2**55 + 1], multiplicity=3)
    b.add_variable("y", 2, [0, float("inf")])
    z = b.add_variable("z", 2, [4, 5])
    b.add_pairwise(x, z, [[1, 2], [3, 4]], multiplicity=5)
    b.tie(x, z)
    b.add_constant(7)
    b.add_interval_budget("memory", [(x, 0, 3, [1, 2]), (z, 1, 2, [3, 4])], limit=5)
    original = b.build()
    path = tmp_path / "mixed.json"
    IopddlFormat().write(original, path)
    again = IopddlFormat().read(path)
    for label_x in range(2):
        for label_y in range(2):
            for label_z in range(2):
                a = [label_x, label_y, label_z]
                assert evaluate(again, a).objective == evaluate(original, a).objective or not (
                    evaluate(original, a).feasible
                )
                assert evaluate(again, a).feasible == evaluate(original, a).feasible


def test_what_the_format_cannot_say_is_refused(tmp_path: Path) -> None:
    def fresh() -> ProblemBuilder:
        b = ProblemBuilder("p")
        b.add_variable("x", 2, [1, 2])
        return b

    linear = fresh()
    linear.add_budget("weight", {"x": [1, 2]}, upper=1)
    soft = fresh()
    soft.add_interval_budget("memory", [("x", 0, 1, [1, 2])], limit=1, price=2)
    twice = fresh()
    twice.add_interval_budget("memory", [("x", 0, 1, [1, 2]), ("x", 2, 3, [1, 2])], limit=1)
    large = fresh()
    large.add_unary("x", [FORBIDDEN, 0])
    for builder, word in ((linear, "weight"), (soft, "memory"), (twice, "x"), (large, "10^18")):
        with pytest.raises(UnsupportedProblemError, match=re.escape(word)):
            IopddlFormat().write(builder.build(), tmp_path / "p.json")
    assert not (tmp_path / "p.json").exists()


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("{", "line 1, column 2"),
        ("[1, 2]", "the top level: expected an object"),
        ("{}", "problem: expected an object, but it is missing"),
        (document(nodes__costs=None), "problem.nodes.costs: expected a list, but it is missing"),
        (document(nodes__costs=[[1, 2], []]), "problem.nodes.costs[1]: expected at least one strategy"),
        (document(nodes__costs=[[1, "2"], [3]]), 'problem.nodes.costs[0][1]: expected a number, found "2"'),
        (document(nodes__costs=[[1, True], [3]]), "problem.nodes.costs[0][1]: expected a number, found true"),
        (document(nodes__costs=[[1, None], [3]]), "problem.nodes.costs[0][1]: expected a number, found null"),
        (
            document(nodes__costs=[[1, -(2**70)], [3]]),
            "problem.nodes.costs[0][1]: expected a number that fits",
        ),
        (document(edges__nodes=[[0, 2]]), "problem.edges.nodes[0]: expected node indices from 0 to 1"),
        (document(edges__nodes=[[0]]), "problem.edges.nodes[0]: expected a pair of node indices"),
        (document(edges__nodes=[[0, 1.5]]), "problem.edges.nodes[0][1]: expected a whole number"),
        (document(edges__costs=[[1, 2, 3]]), "problem.edges.costs[0]: expected 2 x 1 costs"),
        (document(edges__costs=[]), "problem.edges.costs: expected 1 lists"),
        (document(nodes__intervals=[[4, 0], [2, 6]]), "problem.nodes.intervals[0]: expected an interval"),
        (document(nodes__intervals=[[0, 4]]), "problem.nodes.intervals: expected 2 entries"),
        (document(nodes__usages=[[5, 1], [2, 2]]), "problem.nodes.usages[1]: expected 1 usages"),
        (document(nodes__usages=[[5, -1], [2]]), "problem.nodes.usages[0]: expected usages that are not"),
        (document(usage_limit="6"), 'problem.usage_limit: expected a number, found "6"'),
        ('{"problem": {"nodes": {"costs": [[NaN]]}}}', "NaN is no JSON number"),
        ("[" * 100_000, "nested too deeply"),
        ('{"problem": ' + "9" * 5000 + "}", "limit"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path: Path, data: Any, place: str) -> None:
    with pytest.raises(InvalidProblemError, match=re.escape(place)) as caught:
        read(tmp_path, data)
    assert str(caught.value).startswith(str(tmp_path / "problem.json"))


def test_bytes_that_are_no_text_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "problem.json"
    path.write_bytes(b'{"problem": "\xff"}')
    with pytest.raises(InvalidProblemError, match="byte 13: expected UTF-8"):
        IopddlFormat().read(path)


def test_solutions_are_read_checked_and_written(tmp_path: Path) -> None:
    problem = read(tmp_path, document())
    path = tmp_path / "plan.json.gz"
    IopddlFormat().write_solution(path, problem, np.array([1, 0]))
    assert IopddlFormat().read_solution(path, problem).tolist() == [1, 0]
    for text, place in (
        ("[1]", "expected 2"),
        ("[2, 0]", "[0]: expected an index from 0 to 1"),
        ("{}", "a list"),
    ):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(InvalidProblemError, match=re.escape(place)):
            IopddlFormat().read_solution(tmp_path / "bad.json", problem)


def test_a_decompression_bomb_is_refused(tmp_path: Path) -> None:
    import gzip

    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b" " * 10_000_000))
    with pytest.raises(InvalidProblemError, match="max_bytes"):
        IopddlFormat().read(path, max_bytes=1_000_000)


def test_more_costs_than_the_limit_are_refused(tmp_path: Path) -> None:
    (tmp_path / "p.json").write_text(json.dumps(document()))
    with pytest.raises(InvalidProblemError, match="max_cells"):
        IopddlFormat().read(tmp_path / "p.json", max_cells=4)
    assert IopddlFormat().read(tmp_path / "p.json", max_cells=5).num_edges == 1
