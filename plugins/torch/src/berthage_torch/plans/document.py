"""Plans as text: JSON that people can read, with how a plan was made apart from the placements.

Nothing in it is ever run: the name of a model's function is kept, and called only when a person names it again.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

from berthage import InvalidProblemError

from .consistency import check_moves
from .placed import PlannedEdge, PlannedNode, Step
from .settings import InputShape, Origin, Settings

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["FORMAT_VERSION", "dumps", "loads"]

FORMAT_VERSION: Final = 2
"""Version 1 had no settings, and no price for each step of a move."""

_SUM: Final = 1e-9
"""By how much, relatively, costs may miss the objective they add up to."""

_AGAIN: Final = "search it again with `berthage search … --plan`"

T = TypeVar("T")


def dumps(plan: Plan) -> str:
    """A plan as JSON."""
    document: dict[str, Any] = {
        "format": "berthage-plan",
        "format_version": FORMAT_VERSION,
        "placement_hash": plan.placement_hash(),
        "settings": _settings(plan),
        "result": {
            "termination": plan.termination,
            "objective": plan.objective,
            "penalty_us": plan.penalty_us,
            "bound": plan.bound if math.isfinite(plan.bound) else None,
        },
        "costs": [dataclasses.asdict(row) for row in plan.costs()],
    }
    lines = []
    for key, value in document.items():
        text = _rows(value) if isinstance(value, list) else _pairs(value) if isinstance(value, dict) else _text(value)
        lines.append(f"  {_text(key)}: {text}")
    lines.append(f'  "nodes": {_rows(map(dataclasses.asdict, plan.nodes))}')
    lines.append(f'  "edges": {_rows(map(_edge, plan.edges))}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def loads(text: str) -> tuple[dict[str, Any], str]:
    """What a `Plan` is made of, and the hash that its placements should have.

    Raises:
        InvalidProblemError: The text is no plan, is of another version, or was changed: its moves do not do what they
            say, or its costs do not add up to its objective.
    """
    try:
        document = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InvalidProblemError(f"not a plan: {error}") from None
    if not isinstance(document, dict) or document.get("format") != "berthage-plan":
        raise InvalidProblemError("not a plan")
    _check_version(document.get("format_version"))
    fields = {
        **_part(document, "settings", _made),
        **_part(document, "result", _found),
        "nodes": _part(document, "nodes", lambda rows: tuple(map(_node, rows))),
        "edges": _part(document, "edges", lambda rows: tuple(map(_edge_of, rows))),
    }
    try:
        check_moves(fields["nodes"], fields["edges"], fields["mesh"])
    except ValueError as error:  # an InvalidProblemError, or a placement that is none
        raise InvalidProblemError(f"{error}; it was changed or damaged") from None
    costs = [node.compute_us for node in fields["nodes"]] + [edge.us for edge in fields["edges"]]
    total = math.fsum([*costs, fields["penalty_us"]])
    if not math.isclose(total, fields["objective"], rel_tol=_SUM, abs_tol=_SUM):
        raise InvalidProblemError(
            f"its costs add up to {total}, its objective is {fields['objective']}; it was changed or damaged"
        )
    return fields, _part(document, "placement_hash", str)


def _check_version(version: object) -> None:
    if version == FORMAT_VERSION:
        return
    out = "update berthage-torch to read it"
    if version == 1:
        out = f"it does not say how it was made; {_AGAIN}"
    raise InvalidProblemError(f"not a plan of format version {FORMAT_VERSION} but of {version!r}: {out}")


def _part(of: Any, name: str, read: Callable[[Any], T]) -> T:
    """A part of a plan, read.

    Raises:
        InvalidProblemError: It is not there, or is something else.
    """
    whole = _mapping(of)
    if name not in whole:
        raise InvalidProblemError(f"{name} is missing: {_AGAIN}")
    try:
        return read(whole[name])
    except InvalidProblemError as error:  # about a part of this part
        raise InvalidProblemError(f"{name}.{error}") from None
    except KeyError as error:
        raise InvalidProblemError(f"{name}: {error} is missing: {_AGAIN}") from None
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InvalidProblemError(f"{name}: {error}: {_AGAIN}") from None


def _settings(plan: Plan) -> dict[str, Any]:
    settings = plan.settings
    return {
        "model": {"name": plan.model, "origin": settings.origin.name or None, "sizes": dict(settings.origin.sizes)},
        "inputs": [dataclasses.asdict(each) for each in settings.inputs],
        "parameters": [dataclasses.asdict(each) for each in settings.parameters],
        "graph_key": plan.graph_key,
        "mesh": dict(plan.mesh),
        "cost_model": {
            "name": plan.cost_model[0],
            "key": plan.cost_model[1],
            "asked": settings.cost_model or None,
        },
        "policy": settings.policy,
        "tie": settings.tie,
        "constraints": settings.constraints,
        "solver": {
            "name": plan.solver,
            "version": settings.solver_version,
            "options": settings.options,
            **settings.effort,
        },
        "seeding": settings.seeding,
    }


def _edge(edge: PlannedEdge) -> dict[str, Any]:
    return dataclasses.asdict(edge) | {"path": [step._asdict() for step in edge.path]}


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)


def _rows(items: Any) -> str:
    rows = ",\n    ".join(map(_text, items))
    return f"[\n    {rows}\n  ]" if rows else "[]"


def _pairs(items: Mapping[str, Any]) -> str:
    rows = ",\n    ".join(f"{_text(key)}: {_text(value)}" for key, value in items.items())
    return f"{{\n    {rows}\n  }}" if rows else "{}"


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number")


def _made(made: Any) -> dict[str, Any]:
    """The fields of a `Plan` that say how it was made."""
    solver, asked = _part(made, "solver", _solver)
    origin = _part(made, "model", lambda model: Origin(str(model["origin"] or ""), _mapping(model["sizes"])))
    prices = _part(made, "cost_model", lambda given: {key: str(given[key] or "") for key in ("name", "key", "asked")})
    settings = Settings(
        origin=origin,
        inputs=_part(made, "inputs", _shapes),
        parameters=_part(made, "parameters", _shapes),
        cost_model=prices["asked"],
        policy=_part(made, "policy", _mapping_or_none),
        tie=_part(made, "tie", _tie),
        constraints=_part(made, "constraints", _mapping),
        seeding=_part(made, "seeding", _mapping_or_none),
        **asked,
    )
    return {
        "model": _part(made, "model", lambda model: str(model["name"])),
        "mesh": _part(made, "mesh", lambda mesh: {str(dim): _count(size) for dim, size in _mapping(mesh).items()}),
        "cost_model": (prices["name"], prices["key"]),
        "solver": solver,
        "graph_key": _part(made, "graph_key", str),
        "settings": settings,
    }


def _solver(given: Any) -> tuple[str, dict[str, Any]]:
    """The name of a solver, and what the settings have of it."""
    effort = dict(_mapping(given))
    name, version, options = (effort.pop(key) for key in ("name", "version", "options"))
    return str(name), {"solver_version": str(version), "options": _mapping(options), "effort": effort}


def _found(result: Any) -> dict[str, Any]:
    """The fields of a `Plan` that say how good it is."""
    bound = result["bound"]
    return {
        "termination": str(result["termination"]),
        "objective": _number(result["objective"]),
        "bound": -math.inf if bound is None else _number(bound),
        "penalty_us": _number(result["penalty_us"]),
    }


def _node(row: Mapping[str, Any]) -> PlannedNode:
    words = {key: str(row[key]) for key in ("name", "op", "phase", "path", "fqn", "group")}
    placed = {key: _words(row[key]) for key in ("inputs", "outputs")}
    return PlannedNode(
        **words, inputs=placed["inputs"], outputs=placed["outputs"], compute_us=_number(row["compute_us"])
    )


def _edge_of(row: Mapping[str, Any]) -> PlannedEdge:
    steps = tuple(
        Step(
            str(step["kind"]),
            str(step["dim"]),
            str(step["after"]),
            int(step["bytes"]),
            _number(step["us"]),
            str(step["algorithm"]),
        )
        for step in row["path"]
    )
    words = {key: str(row[key]) for key in ("producer", "consumer", "before", "after")}
    output, position = int(row["output"]), int(row["position"])
    return PlannedEdge(**words, output=output, position=position, us=_number(row["us"]), path=steps)


def _tie(value: Any) -> Any:
    if not isinstance(value, str | list):
        raise TypeError(f"{value!r} says not what is tied")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(f"{value!r} is no count")
    return value


def _shapes(rows: Any) -> tuple[InputShape, ...]:
    return tuple(InputShape(str(row["name"]), _shape(row["shape"]), str(row["dtype"])) for row in rows)


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(map(_count, value))


def _words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return tuple(map(str, value))


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{value!r} is no mapping")
    return value


def _mapping_or_none(value: Any) -> dict[str, Any] | None:
    return None if value is None else _mapping(value)
