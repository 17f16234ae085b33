"""Options: typed, converted from text, refused with an answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from berthage.errors import OptionError, PluginError
from berthage.registry import SolverInfo, build_options, describe_options


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


@dataclass(frozen=True)
class Options:
    rounds: int = field(default=10, metadata={"help": "How many rounds.", "minimum": 1, "maximum": 99})
    damping: float = field(default=0.5, metadata={"minimum": 0.0})
    polish: bool = True
    backend: Literal["highs", "cbc"] = "highs"
    limit: float | None = None
    mood: Mood = Mood.CALM
    order: str = field(default="size", metadata={"choices": ("size", "degree")})
    parts: tuple[int, ...] = ()
    log: Path | None = None
    width: Literal[32, 64] = 64
    size: int | str = "auto"


INFO = SolverInfo("mine", "For tests.", "a:b", options=Options)
BARE = SolverInfo("bare", "For tests.", "a:b")


def test_nothing_given_is_the_defaults() -> None:
    assert build_options(INFO) == build_options(INFO, {}) == Options()
    assert build_options(BARE) is None
    assert build_options(BARE, {}) is None


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rounds", "12", 12),
        ("damping", "1e-3", 1e-3),
        ("damping", "inf", float("inf")),
        ("polish", "no", False),
        ("polish", "True", True),
        ("backend", "cbc", "cbc"),
        ("limit", "none", None),
        ("limit", "2", 2.0),
        ("mood", "wild", Mood.WILD),
        ("mood", "WILD", Mood.WILD),
        ("order", "degree", "degree"),
        ("parts", "1, 2,3", (1, 2, 3)),
        ("parts", "", ()),
        ("log", "a/b", Path("a/b")),
        ("width", "32", 32),
        ("size", "3", 3),
        ("size", "auto", "auto"),
    ],
)
def test_text_is_converted(name: str, text: str, value: Any) -> None:
    made = getattr(build_options(INFO, {name: text}), name)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("rounds", np.int64(7), 7),
        ("damping", 1, 1.0),
        ("damping", np.float32(0.25), 0.25),
        ("mood", Mood.WILD, Mood.WILD),
        ("parts", [1, 2], (1, 2)),
    ],
)
def test_values_take_the_declared_type(name: str, given: Any, value: Any) -> None:
    made = getattr(build_options(INFO, {name: given}), name)
    assert made == value
    assert type(made) is type(value)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("rounds", "ten", "a whole number, not 'ten'"),
        ("rounds", 2.5, "a whole number, not 2.5"),
        ("rounds", True, "a whole number, not True"),
        ("rounds", None, "a whole number, not None"),
        ("rounds", 0, "at least 1, not 0"),
        ("rounds", "100", "at most 99, not '100'"),
        ("damping", "much", "a number, not 'much'"),
        ("damping", "nan", "a number, not 'nan'"),
        ("damping", True, "a number, not True"),
        ("damping", -0.5, "at least 0.0, not -0.5"),
        ("polish", 1, "true or false, not 1"),
        ("polish", "maybe", "true or false, not 'maybe'"),
        ("backend", "gurobi", "one of highs, cbc, not 'gurobi'"),
        ("limit", "soon", "a number, not 'soon'"),
        ("mood", "angry", "one of calm, wild, not 'angry'"),
        ("order", "name", "one of size, degree, not 'name'"),
        ("parts", "1,x", "a whole number, not '1,x'"),
        ("parts", 3, "a list, not 3"),
        ("log", 3, "a path, not 3"),
        ("width", "33", "one of 32, 64, not '33'"),
        ("order", "x" * 500, r"not 'x{40,60}\.\.\.$"),
    ],
)
def test_a_wrong_value_is_refused_with_what_would_fit(name: str, given: Any, expected: str) -> None:
    with pytest.raises(OptionError, match=f"option '{name}' of 'mine' must be .*{expected}"):
        build_options(INFO, {name: given})


def test_an_unknown_option_is_refused_with_near_misses() -> None:
    with pytest.raises(OptionError, match=r"'mine' has no option 'round'; did you mean 'rounds'"):
        build_options(INFO, {"round": 3})
    with pytest.raises(OptionError, match=r"no option 'zzz'; it has: rounds, damping, "):
        build_options(INFO, {"zzz": 3})


def test_an_option_of_a_solver_without_options_is_refused() -> None:
    with pytest.raises(OptionError, match="'bare' has no options, but 'rounds' was given"):
        build_options(BARE, {"rounds": 3})
    with pytest.raises(OptionError, match="'bare' has no options, but a Options was given"):
        build_options(BARE, Options())


def test_dashes_do_for_underscores_but_not_twice() -> None:
    @dataclass(frozen=True)
    class Long:
        long_name: int = 0

    info = SolverInfo("long", "", "a:b", options=Long)
    assert build_options(info, {"long-name": 3}) == Long(3)
    with pytest.raises(OptionError, match="'long_name' of 'long' is given twice"):
        build_options(info, {"long-name": 3, "long_name": 4})


def test_an_instance_is_checked_too() -> None:
    assert build_options(INFO, Options(rounds=3)) == Options(rounds=3)
    with pytest.raises(OptionError, match="at least 1, not -1"):
        build_options(INFO, Options(rounds=-1))


def test_something_else_is_refused() -> None:
    with pytest.raises(OptionError, match="must be a mapping or a Options, not int"):
        build_options(INFO, 3)


def test_what_the_dataclass_itself_refuses_is_an_option_error() -> None:
    @dataclass(frozen=True)
    class Pair:
        low: int = 0
        high: int = 1

        def __post_init__(self) -> None:
            if self.low > self.high:
                raise ValueError("low is above high")

    with pytest.raises(OptionError, match="options of 'pair': low is above high"):
        build_options(SolverInfo("pair", "", "a:b", options=Pair), {"low": 2})


def test_a_type_that_options_cannot_have_is_the_plugins_fault() -> None:
    @dataclass(frozen=True)
    class Odd:
        table: dict[str, int] = field(default_factory=dict)

    with pytest.raises(PluginError, match="option 'table' of 'odd'"):
        build_options(SolverInfo("odd", "", "a:b", options=Odd), {"table": "x"})


def test_an_option_needs_a_default() -> None:
    @dataclass(frozen=True)
    class Bare:
        depth: int

    with pytest.raises(PluginError, match="option 'depth' of Bare needs a default"):
        SolverInfo("bare", "", "a:b", options=Bare)


def test_options_describe_themselves_for_listings() -> None:
    fields = {f.name: f for f in describe_options(INFO)}
    assert describe_options(BARE) == ()
    assert list(fields)[:3] == ["rounds", "damping", "polish"]
    rounds = fields["rounds"]
    assert (rounds.type, rounds.default, rounds.help) == ("int", 10, "How many rounds.")
    assert (rounds.minimum, rounds.maximum) == (1, 99)
    assert fields["backend"].type == "highs | cbc"
    assert fields["order"].type == "size | degree"
    assert fields["limit"].type == "float | none"
    assert (fields["mood"].type, fields["mood"].default) == ("calm | wild", "calm")
    assert (fields["parts"].type, fields["parts"].default) == ("list of int", [])
