"""WCSP and CFN files: what they mean, what is refused where."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from berthage import InvalidProblemError, PlacementProblem, ProblemBuilder, UnsupportedProblemError, evaluate
from berthage_formats.cfn import CfnFormat
from berthage_formats.wcsp import WcspFormat

NETWORK = """net 2 3 4 100
2 3
0 5 0
1 1 1 1
2 7
2 0 1 3 2
0 1 100
1 2 8
2 1 0 0 0
"""


def read(tmp_path: Path, text: str, **options: Any) -> PlacementProblem:
    (tmp_path / "net.wcsp").write_text(text)
    return WcspFormat().read(tmp_path / "net.wcsp", **options)


def read_cfn(tmp_path: Path, data: Any) -> PlacementProblem:
    (tmp_path / "net.cfn").write_text(data if isinstance(data, str) else json.dumps(data))
    return CfnFormat().read(tmp_path / "net.cfn")


def test_defaults_tuples_and_the_top_value(tmp_path: Path) -> None:
    problem = read(tmp_path, NETWORK)
    assert (problem.name, problem.constant, problem.is_integral) == ("net", 5, True)
    assert evaluate(problem, [0, 0]).objective == 5 + 1 + 3
    assert evaluate(problem, [1, 2]).objective == 5 + 7 + 8
    assert evaluate(problem, [0, 1]).objective == float("inf")
    assert evaluate(read(tmp_path, NETWORK.replace("4 100", "4 101")), [0, 1]).objective == 106


def test_shared_functions(tmp_path: Path) -> None:
    text = "s 3 2 3 9\n2 2 2\n-2 0 1 0 1\n0 0 4\n2 1 2 0 -1\n2 2 0 0 -1\n"
    problem = read(tmp_path, text)
    assert (problem.num_edges, len(problem.tables)) == (3, 1)
    assert evaluate(problem, [0, 0, 0]).objective == 12
    with pytest.raises(InvalidProblemError, match="line 4: expected minus the number of an earlier shared"):
        read(tmp_path, "s 3 2 2 9\n2 2 3\n-2 0 1 0 1 0 0 4\n2 1 2 0 -1\n")


def test_large_costs_are_exact(tmp_path: Path) -> None:
    big = 2**57 + 1
    problem = read(tmp_path, f"b 2 2 2 {2**62}\n2 2\n1 0 {big} 1\n0 {2**62}\n2 0 1 {big} 1\n1 1 {big + 2}\n")
    assert evaluate(problem, [1, 0]).objective == 2 * big
    assert evaluate(problem, [1, 1]).objective == 2 * big + 2
    assert evaluate(problem, [0, 1]).objective == float("inf")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("g 3 2 1 9\n2 2 2\n3 0 1 2 0 0\n", "line 3: function 0 joins 3 variables"),
        ("g 3 2 1 9\n2 2 2\n3 0 1 2 -1 salldiff var 1\n", "line 3: function 0 (salldiff) joins 3"),
        ("g 2 2 1 9\n2 2\n2 0 1 -1 >= 1 2\n", "line 3: function 0 is the global constraint '>='"),
        ("g 1 2 0 9\n-5\n", "line 2: variable 0 has an interval domain"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(UnsupportedProblemError, match=re.escape(word)):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "line 1: expected the number of variables, the file ends"),
        (NETWORK.replace("4 100", "4 0"), "line 1: expected the top value"),
        (
            NETWORK.replace("2 3\n0", "2 0\n0"),
            "line 2: expected a domain of at least one value for variable 1",
        ),
        (NETWORK.replace("1 2 8", "1 3 8"), "line 8: expected a value from 0 to 2, found '3'"),
        (NETWORK.replace("1 2 8", "1 2 x"), "line 8: expected a whole number in the tuples of function 2"),
        (NETWORK.replace("1 2 8", "1 2 8.5"), "line 8: expected a whole number in the tuples of function 2"),
        (NETWORK.replace("2 0 1 3 2", "2 0 2 3 2"), "line 6: expected a variable of function 2, 0 to 1"),
        (NETWORK.replace("4 100", "5 100"), "expected the number of variables of function 4, the file ends"),
        (NETWORK.replace("4 100", "3 100"), "line 9: expected the end of the file after 3 functions"),
        (NETWORK.replace("2 3\n0", "2 1000000000000\n0"), "max_cells"),
        (NETWORK.replace("2 0 1 3 2", "2 0 1 3 1000000000000"), "a whole number in the tuples of function 2"),
    ],
)
def test_a_broken_file_names_the_place(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        read(tmp_path, text)


def test_tables_too_large_are_refused_before_they_are_made(tmp_path: Path) -> None:
    with pytest.raises(InvalidProblemError, match="function 0 brings the problem to"):
        read(tmp_path, "h 2 1000000 1 9\n1000000 1000000\n2 0 1 0 0\n")


def pairwise() -> PlacementProblem:
    b = ProblemBuilder("pair wise")
    x = b.add_variable("x", ["a", "b", "c"], [1, 2**55 + 1, float("inf")], multiplicity=3)
    y = b.add_variable("y", 2, [0, 4])
    b.add_variable("z", 1)
    b.add_pairwise(x, y, [[1, 2], [3, float("inf")], [0, 0]], multiplicity=5)
    b.add_pairwise(y, x, [[1, 2, 3], [3, 4, 0]])
    b.forbid_pairs(x, "z", [(0, 0)])
    b.add_constant(7)
    return b.build()


def test_written_files_mean_the_same(tmp_path: Path) -> None:
    original = pairwise()
    WcspFormat().write(original, tmp_path / "p.wcsp.xz")
    again = WcspFormat().read(tmp_path / "p.wcsp.xz")
    for a in itertools.product(range(3), range(2), range(1)):
        before, after = evaluate(original, a), evaluate(again, a)
        assert after.feasible == before.feasible
        if before.feasible:
            assert after.objective == before.objective
    WcspFormat().write(again, tmp_path / "again.wcsp")
    assert WcspFormat().read(tmp_path / "again.wcsp") == again


@pytest.mark.parametrize("cost", [0.5, -1, 2**62])
def test_costs_that_wcsp_cannot_say_are_refused(tmp_path: Path, cost: float) -> None:
    b = ProblemBuilder("p")
    b.add_variable("x", 2, [0, cost])
    with pytest.raises(UnsupportedProblemError):
        WcspFormat().write(b.build(), tmp_path / "p.wcsp")


def cfn(**changes: Any) -> dict[str, Any]:
    data: dict[str, Any] = {
        "problem": {"name": "small", "mustbe": "<100.00"},
        "variables": {"v": ["a", "b", "c"], "w": 2},
        "functions": {
            "c": {"scope": [], "costs": [1.5]},
            "u": {"scope": ["w"], "costs": [0.25, "inf"]},
            "dense": {"scope": ["v", "w"], "costs": [4.2, 3.67, -12.1, 7.1, -3.1, 100.0]},
            "same": {"scope": [0, 1], "costs": "sparse"},
            "sparse": {"scope": ["v", "w"], "defaultcost": 0.5, "costs": ["a", 0, 5, "c", 1, "-7.25"]},
        },
    }
    data["functions"].update(changes)
    return data


def test_cfn_dense_sparse_and_shared_functions(tmp_path: Path) -> None:
    problem = read_cfn(tmp_path, cfn())
    assert problem.variable_names == ("v", "w")
    assert problem.label_name(0, 2) == "c"
    assert evaluate(problem, [0, 0]).objective == pytest.approx(1.5 + 0.25 + 4.2 + 5 + 5)
    assert evaluate(problem, [1, 0]).objective == pytest.approx(1.5 + 0.25 - 12.1 + 0.5 + 0.5)
    assert evaluate(problem, [0, 1]).objective == float("inf")
    assert evaluate(problem, [2, 1]).objective == float("inf")
    assert len(problem.tables) == 2


def test_cfn_whole_costs_beyond_53_bits_are_exact(tmp_path: Path) -> None:
    big = 2**57 + 1
    data = cfn(u={"scope": ["w"], "costs": [big, 0.5]}, c={"scope": [], "costs": [str(big)]})
    data["functions"] |= {"dense": {"scope": ["v", "w"], "defaultcost": big, "costs": ["a", 0, 4]}}
    del data["problem"]["mustbe"], data["functions"]["same"], data["functions"]["sparse"]
    problem = read_cfn(tmp_path, data)
    assert problem.constant == big
    assert evaluate(problem, [0, 1]).pairwise[0] == float(big)
    assert problem.tables[0].exact(0, 1)[1] == 1
    assert problem.unary_residual is not None
    assert problem.unary_residual.tolist() == [0, 0, 0, 1, 0]


def test_cfn_variables_in_a_list_go_by_number(tmp_path: Path) -> None:
    data = {
        "problem": {"name": "n"},
        "variables": [2, ["p", "q"]],
        "functions": [{"scope": [0, 1], "costs": [1, 2, 3, 4]}],
    }
    problem = read_cfn(tmp_path, data)
    assert problem.variable_names == ("0", "1")
    assert evaluate(problem, [1, 0]).objective == 3


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({**cfn(), "variables": {"v": []}}, "variables.v: expected a list of value names"),
        ({**cfn(), "variables": {"v": 10**12, "w": 2}}, "max_cells"),
        ({**cfn(), "variables": {"v": ["a", "a"], "w": 2}}, "variables.v"),
        ({**cfn(), "problem": {"name": "x", "mustbe": "100"}}, "problem.mustbe: expected"),
        (
            cfn(dense={"scope": ["v", "w"], "costs": [1, 2]}),
            "functions.dense.costs: expected 6 costs, found 2",
        ),
        (cfn(dense={"scope": ["v", "q"], "costs": [1, 2]}), "functions.dense.scope[1]: expected the name"),
        (cfn(u={"scope": ["w"], "costs": [1, "x"]}), "functions.u.costs: expected a cost"),
        (cfn(u={"scope": ["w"], "costs": [1, "nan"]}), "functions.u.costs: expected a cost"),
        (cfn(u={"scope": ["w"], "costs": "u"}), "functions.u.costs: expected a list, or the name of another"),
        (cfn(u={"scope": ["w"], "costs": "dense"}), "functions.dense: shared by 'u'"),
        (
            cfn(sparse={"scope": ["v", "w"], "defaultcost": 0, "costs": ["z", 0, 5]}),
            "functions.sparse.costs[0]: expected a value of the variable",
        ),
        (
            cfn(sparse={"scope": ["v", "w"], "defaultcost": 0, "costs": ["a", 0]}),
            "functions.sparse.costs: expected groups of 3",
        ),
        ('{"problem": {}, "variables": {"a": 1, "a": 2}, "functions": {}}', '"a" occurs twice'),
    ],
)
def test_a_broken_cfn_names_the_place(tmp_path: Path, data: Any, place: str) -> None:
    with pytest.raises(InvalidProblemError, match=re.escape(place)):
        read_cfn(tmp_path, data)


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ({**cfn(), "problem": {"name": "x", "mustbe": ">0"}}, "maximisation"),
        ({**cfn(), "variables": {"v": -5, "w": 2}}, "variables.v: interval domains"),
        (
            cfn(g={"scope": ["v", "w"], "type": "salldiff", "params": {}}),
            'functions.g: the global function "salldiff"',
        ),
        (cfn(t={"scope": ["v", "w", "v"], "costs": []}), "functions.t: joins 3 variables"),
    ],
)
def test_what_cfn_does_not_support_is_named(tmp_path: Path, data: Any, word: str) -> None:
    with pytest.raises(UnsupportedProblemError, match=re.escape(word)):
        read_cfn(tmp_path, data)


def test_a_written_cfn_keeps_names_and_costs(tmp_path: Path) -> None:
    b = ProblemBuilder("named")
    x = b.add_variable("x", ["S(0)", "R"], [1e-7, 2.5], multiplicity=3)
    y = b.add_variable("y", 2, [0, float("inf")])
    b.add_pairwise(x, y, [[-1 / 3, 2], [3e20, 4]])
    b.add_constant(7)
    original = b.build()
    CfnFormat().write(original, tmp_path / "n.cfn.gz")
    again = CfnFormat().read(tmp_path / "n.cfn.gz")
    assert again.variable_names == original.variable_names
    assert again.label_name(0, 0) == "S(0)"
    for a in itertools.product(range(2), repeat=2):
        assert evaluate(again, a).objective == pytest.approx(evaluate(original, a).objective, rel=1e-15)
    CfnFormat().write(again, tmp_path / "again.cfn")
    assert CfnFormat().read(tmp_path / "again.cfn") == again
