"""`format_conformance`: the test class of a file format."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import currently_in_test_context
from hypothesis import strategies as st

from berthage import BerthageError, PlacementProblem, Registry, UnsupportedProblemError, load_registry
from berthage.registry import FormatInfo
from berthage.testing.kit.checks import Check, build_class, check
from berthage.testing.kit.conduct import fingerprint
from berthage.testing.kit.processes import verify_light_hooks
from berthage.testing.kit.solver_kit import describe
from berthage.testing.known import KnownAnswer, known_answers
from berthage.testing.oracle import all_assignments, price_all
from berthage.testing.strategies import ALL_FEATURES, Costs, Feature, assignments, problems

__all__ = ["format_checks", "format_conformance"]


@dataclass(frozen=True)
class FormatKit:
    """A format under test."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    lossless: bool = False
    features: frozenset[Feature] = ALL_FEATURES
    costs: tuple[Costs, ...] = tuple(Costs)
    tolerance: float = 1e-9
    max_examples: int = 50
    given_registry: Registry | None = None

    @cached_property
    def registry(self) -> Registry:
        """Where the format is looked up."""
        return self.given_registry if self.given_registry is not None else load_registry()

    @cached_property
    def info(self) -> FormatInfo:
        """The format's description."""
        return self.registry.format(self.name)

    def skip_reason(self, checked: Check) -> str:
        """Why a check does not apply, or an empty string."""
        unavailable = self.registry.unavailable_reason(self.info)
        if unavailable:
            return f"{self.name}: {unavailable}"
        lacking = [verb for verb in ("reads", "writes") if verb in checked.needs and not getattr(self.info, verb)]
        return f"{self.name} does not promise: {', '.join(lacking)}" if lacking else ""

    def path(self, folder: str, stem: str = "file") -> Path:
        """A path in a folder with the format's first ending."""
        return Path(folder) / f"{stem}{self.info.extensions[0] if self.info.extensions else ''}"

    def read(self, path: Path) -> PlacementProblem:
        """Read a problem with the options under test."""
        problem: PlacementProblem = self.registry.create_format(self.name).read(path, **self.options)
        return problem

    def write(self, problem: PlacementProblem, path: Path) -> bool:
        """Write a problem; False when the format says that it cannot say this."""
        refusal = ""
        try:
            self.registry.create_format(self.name).write(problem, path, **self.options)
        except UnsupportedProblemError as error:
            refusal = str(error).strip() or "refused without saying why"
        assert refusal != "refused without saying why", refusal
        lazy = any(table.kind == "lazy" for table in problem.tables)  # an oracle cannot be written to a file
        assert not (refusal and self.lossless and not lazy), f"a lossless format refused: {refusal}"
        return not refusal


def _same_meaning(kit: FormatKit, before: PlacementProblem, after: PlacementProblem) -> None:
    """Both problems price every assignment alike (a sample of them when there are many)."""
    assert after.num_labels.tolist() == before.num_labels.tolist(), "variables or labels changed"
    everything = all_assignments(before)
    old_costs, old_feasible = price_all(before, everything)
    new_costs, new_feasible = price_all(after, everything)
    assert (old_feasible == new_feasible).all(), "what is feasible changed"
    olds, news = old_costs[old_feasible].tolist(), new_costs[old_feasible].tolist()
    if before.is_integral and kit.lossless:
        assert [int(v) for v in olds] == [int(v) for v in news], "costs changed"
    pairs = zip(olds, news, strict=True)
    assert all(math.isclose(float(a), float(b), rel_tol=kit.tolerance, abs_tol=kit.tolerance) for a, b in pairs), (
        "costs changed"
    )


def _there_and_back(kit: FormatKit, problem: PlacementProblem) -> None:
    if currently_in_test_context():
        describe(problem)
    before = fingerprint(problem)
    with tempfile.TemporaryDirectory() as folder:
        path = kit.path(folder)
        if not kit.write(problem, path):
            assert not any(Path(folder).iterdir()), "refused, yet a file was left behind"
            return
        assert fingerprint(problem) == before, "writing changed the problem"
        again = kit.read(path)
        _same_meaning(kit, problem, again)
        if kit.lossless and not any(table.kind == "lazy" for table in problem.tables):
            assert again == problem, "the digest changed"
            assert again.name == problem.name
            assert again.variable_names == problem.variable_names
            assert again.constraint_names == problem.constraint_names
        second, third = kit.path(folder, "second"), kit.path(folder, "third")
        assert kit.write(again, second), "what was read cannot be written"
        kit.write(kit.read(second), third)
        assert second.read_bytes() == third.read_bytes(), "writing what was read gives another file each time"


@check(needs=("reads", "writes"), cases=known_answers)
def known_answer(kit: FormatKit, case: KnownAnswer) -> None:
    """A problem known by hand comes back with the same meaning."""
    _there_and_back(kit, case.problem)


@check(
    needs=("reads", "writes"),
    given=lambda kit: problems(features=kit.features, costs=kit.costs, max_states=300),
)
def round_trip_keeps_the_meaning(kit: FormatKit, problem: PlacementProblem) -> None:
    """What was written reads back as a problem that prices every assignment alike, or was refused by name."""
    _there_and_back(kit, problem)


@check(
    needs=("reads", "writes"),
    given=lambda kit: problems(features=kit.features, costs=kit.costs, max_states=300).flatmap(
        lambda problem: st.tuples(st.just(problem), assignments(problem))
    ),
    share=0.5,
)
def solutions_round_trip(kit: FormatKit, pair: tuple[PlacementProblem, list[int]]) -> None:
    """An assignment written as a solution reads back, where the format has solutions."""
    problem, chosen = pair
    made = kit.registry.create_format(kit.name)
    if not (hasattr(made, "read_solution") and hasattr(made, "write_solution")):
        pytest.skip(f"{kit.name} has no solution files")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "solution"
        made.write_solution(path, problem, np.array(chosen, dtype=np.int32))
        assert np.asarray(made.read_solution(path, problem)).tolist() == chosen


@st.composite
def _damage(draw: st.DrawFn, kit: FormatKit) -> tuple[PlacementProblem, int, str]:
    problem = draw(problems(features=kit.features, costs=kit.costs, max_states=100))
    return (
        problem,
        draw(st.integers(0, 2**32 - 1)),
        draw(st.sampled_from(["cut", "flip", "swap", "insert", "repeat"])),
    )


@check(needs=("reads", "writes"), given=_damage, share=2.0)
def damaged_files_are_refused_clearly(kit: FormatKit, damaged: tuple[PlacementProblem, int, str]) -> None:
    """A damaged file gives a valid problem or an error of ours with a message; never a crash."""
    problem, seed, way = damaged
    with tempfile.TemporaryDirectory() as folder:
        path = kit.path(folder)
        if not kit.write(problem, path):
            return
        path.write_bytes(_damaged(path.read_bytes(), way, random.Random(seed)))
        _reads_or_refuses(kit, path)


def _damaged(data: bytes, way: str, chance: random.Random) -> bytes:
    if not data:
        return b"\x00"
    at = chance.randrange(len(data))
    length = chance.randrange(1, 20)
    match way:
        case "cut":
            return data[:at]
        case "flip":
            return data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
        case "swap":
            other = chance.randrange(len(data))
            mutable = bytearray(data)
            mutable[at], mutable[other] = mutable[other], mutable[at]
            return bytes(mutable)
        case "insert":
            return (
                data[:at] + chance.choice([b"-1", b"nan", b"1e999", b"\x00", b"99999999999", b"[", b"\xff"]) + data[at:]
            )
        case _:
            return data[:at] + data[at : at + length] * 2 + data[at + length :]


def _reads_or_refuses(kit: FormatKit, path: Path) -> None:
    message = "read"
    try:
        problem = kit.read(path)
    except BerthageError as error:
        problem, message = None, str(error).strip()
    assert message, "refused without saying why"
    if problem is not None:
        assert not np.isnan(problem.unary).any()
        assert not any(np.isnan(table.to_dense()).any() for table in problem.tables)
        assert problem.digest


@check(needs=("reads",))
def rubbish_is_refused_clearly(kit: FormatKit) -> None:
    """Empty files, text, binary rubbish and missing files are errors with a message."""
    with tempfile.TemporaryDirectory() as folder:
        path = kit.path(folder)
        for rubbish in (b"", b"\n", b"hello\n", bytes(range(256)), b"{}", b"[]", b"\x1f\x8b\x08\x00"):
            path.write_bytes(rubbish)
            with pytest.raises(BerthageError, match=r"\S"):
                kit.read(path)
        with pytest.raises((BerthageError, FileNotFoundError)):
            kit.read(Path(folder) / "missing")


@check()
def hooks_are_light(kit: FormatKit) -> None:
    """The plugin's hooks module imports nothing heavy."""
    verify_light_hooks(kit.info.target)


def format_checks() -> tuple[Check, ...]:
    """Every check of a format."""
    return (
        known_answer,
        round_trip_keeps_the_meaning,
        solutions_round_trip,
        damaged_files_are_refused_clearly,
        rubbish_is_refused_clearly,
        hooks_are_light,
    )


def format_conformance(
    name: str,
    *,
    options: Mapping[str, Any] | None = None,
    lossless: bool = False,
    features: frozenset[Feature] = ALL_FEATURES,
    costs: tuple[Costs, ...] = tuple(Costs),
    exclude: Mapping[str, str] | None = None,
    tolerance: float = 1e-9,
    max_examples: int = 50,
    registry: Registry | None = None,
) -> type:
    """A fresh pytest class that tests a file format: meaning survives a round trip, damage is refused.

    A writer may refuse a problem it cannot say with `UnsupportedProblemError`; it may not change its meaning.

    Args:
        name: the format's name. Nothing is looked up until the tests run.
        options: options for reading and writing.
        lossless: names, coordinates, table kinds and digests must survive too, and nothing is refused.
        features: what occurs in the drawn problems; narrow it to what the format can say, so that less is
            refused.
        costs: kinds of numbers in them.
        exclude: name of a check to the reason why it is left out.
        tolerance: relative tolerance of costs after a round trip.
        max_examples: Hypothesis examples of each property.
        registry: where to look it up; None for what is installed.

    Returns:
        A class to be bound to a name that pytest collects: ``TestMine = format_conformance("my-format")``.
    """
    kit = FormatKit(name, dict(options or {}), lossless, features, costs, tolerance, max_examples, registry)
    return build_class(name, kit, format_checks(), exclude or {})
