"""What a check is, and how a fresh test class is made from checks.

Every conformance class is made anew, with test functions of its own: one ``@given`` function shared by
several test classes through a base class fails a Hypothesis health check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

__all__ = ["Check", "Kit", "build_class", "check"]


class Kit(Protocol):
    """What a check gets as its first argument, whatever kind of plugin is under test."""

    @property
    def max_examples(self) -> int:
        """Hypothesis examples of each property."""
        ...

    def skip_reason(self, checked: Check) -> str:
        """Why a check does not apply, or an empty string."""
        ...


@dataclass(frozen=True)
class Check:
    """One behaviour under test.

    Attributes:
        name: the test is called ``test_<name>``; ``exclude`` uses this name.
        function: called as ``function(kit)``, ``function(kit, case)`` or ``function(kit, drawn)``.
        doc: one sentence.
        needs: capabilities without which the check does not apply.
        given: makes the strategy of the drawn value from the kit, for properties.
        cases: makes named cases, for known answers.
        share: this property runs ``max_examples * share`` examples (dear ones run fewer).
    """

    name: str
    function: Callable[..., None]
    doc: str
    needs: frozenset[Any] = frozenset()
    given: Callable[[Any], st.SearchStrategy[Any]] | None = None
    cases: Callable[[], Iterable[Any]] | None = None
    share: float = 1.0


def check(
    *,
    needs: Iterable[Any] = (),
    given: Callable[[Any], st.SearchStrategy[Any]] | None = None,
    cases: Callable[[], Iterable[Any]] | None = None,
    share: float = 1.0,
) -> Callable[[Callable[..., None]], Check]:
    """Turn a function into a `Check` named after it; see there for the arguments."""

    def decorate(function: Callable[..., None]) -> Check:
        doc = (function.__doc__ or "").strip()
        return Check(function.__name__, function, doc, frozenset(needs), given, cases, share)

    return decorate


def build_class(title: str, kit: Kit, checks: Iterable[Check], exclude: Mapping[str, str]) -> type:
    """A fresh pytest class with one test method per check.

    Args:
        title: name of the class, shown in representations.
        kit: first argument of every check.
        checks: what to test.
        exclude: check name to the reason why it is left out; shown as a skip.

    Raises:
        ValueError: ``exclude`` names a check that does not exist, or gives no reason.
    """
    known = {item.name: item for item in checks}
    for name, reason in exclude.items():
        if name not in known:
            raise ValueError(f"exclude names {name!r}, which is no check; there are: {', '.join(known)}")
        if not reason.strip():
            raise ValueError(f"exclude[{name!r}] needs a reason: the skip shows it")
    namespace: dict[str, Any] = {"__doc__": f"Conformance of {title}.", "kit": kit}
    for item in known.values():
        method = _method(item, kit)
        if item.name in exclude:
            method = pytest.mark.skip(reason=exclude[item.name])(method)
        namespace[f"test_{item.name}"] = method
    return type(f"Conformance[{title}]", (), namespace)


def _method(item: Check, kit: Kit) -> Any:
    if item.given is not None:
        return _property(item, kit, item.given)
    if item.cases is not None:
        cases = tuple(item.cases())

        def test_case(self: Any, case: Any) -> None:
            _skip_unless_applies(item, kit)
            item.function(kit, case)

        _dress(test_case, item)
        return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])(test_case)

    def test(self: Any) -> None:
        _skip_unless_applies(item, kit)
        item.function(kit)

    return _dress(test, item)


def _property(item: Check, kit: Kit, strategy: Callable[[Any], st.SearchStrategy[Any]]) -> Any:
    def test(self: Any, data: st.DataObject) -> None:
        _skip_unless_applies(item, kit)
        item.function(kit, data.draw(strategy(kit), label=item.name))

    return settings(
        max_examples=max(3, round(kit.max_examples * item.share)),
        deadline=None,
        report_multiple_bugs=False,
        phases=[phase for phase in settings().phases if phase is not Phase.explain],
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.filter_too_much,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
    )(given(data=st.data())(_dress(test, item)))


def _skip_unless_applies(item: Check, kit: Kit) -> None:
    reason = kit.skip_reason(item)
    if reason:
        pytest.skip(reason)


def _dress(function: Any, item: Check) -> Any:
    function.__name__ = f"test_{item.name}"
    function.__qualname__ = function.__name__
    function.__doc__ = item.doc
    return function
