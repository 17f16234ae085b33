"""Plans as files: JSON that people can read, with how a plan was made apart from the placements.

Nothing in a file is ever run: the name of a model's function is kept, and called only when a person names it again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from berthage import InvalidProblemError
from berthage.files import atomic_write

from .consistency import check_moves
from .placed import PlannedEdge, PlannedNode, Step
from .settings import InputShape, Origin, Settings

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["FORMAT_VERSION", "load", "save"]

FORMAT_VERSION = 2
"""Version 1 had no settings, and no price for each step of a move."""

_SUM = 1e-9
"""By how much, relatively, costs may miss the objective they add up to."""


def save(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a plan as JSON, atomically."""
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
    with atomic_write(path) as stream:
        stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())


def load(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what a `Plan` is made of.

    Raises:
        InvalidProblemError: The file is no plan, is of another version, or was changed: its placements do not have the
            hash it states, or its costs do not add up to its objective.
    """
    where = os.fspath(path)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_no_number)
        if not isinstance(document, dict) or document.get("format") != "berthage-plan":
            raise InvalidProblemError(f"{where}: not a plan")
        _check_version(where, document.get("format_version"))
        parts = _decode(document)
        costs = [node.compute_us for node in parts["nodes"]] + [edge.us for edge in parts["edges"]]
        total = math.fsum([*costs, parts["penalty_us"]])
    except InvalidProblemError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise InvalidProblemError(f"{where}: not a plan: {type(error).__name__}: {error}") from None
    try:
        check_moves(parts["nodes"], parts["edges"], parts["mesh"])
    except ValueError as error:  # an InvalidProblemError, or a placement that is none
        raise InvalidProblemError(f"{where}: {error}; it was changed or damaged") from None
    if not math.isclose(total, parts["objective"], rel_tol=_SUM, abs_tol=_SUM):
        raise InvalidProblemError(
            f"{where}: its costs add up to {total}, its objective is {parts['objective']}; it was changed or damaged"
        )
    return parts | {"hash": document["placement_hash"]}


def _check_version(where: str, version: object) -> None:
    if version == FORMAT_VERSION:
        return
    out = "update berthage-torch to read it"
    if version == 1:
        out = "it does not say how it was made; search it again with `berthage search … --plan`"
    raise InvalidProblemError(f"{where}: not a plan of format version {FORMAT_VERSION} but of {version!r}: {out}")


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


def _decode(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `Plan`."""
    made, result = document["settings"], document["result"]
    solver = dict(made["solver"])
    name, version, options = (solver.pop(key) for key in ("name", "version", "options"))
    model, prices = made["model"], made["cost_model"]
    settings = Settings(
        origin=Origin(str(model["origin"] or ""), _mapping(model["sizes"])),
        inputs=_shapes(made["inputs"]),
        parameters=_shapes(made["parameters"]),
        cost_model=str(prices["asked"] or ""),
        policy=None if made["policy"] is None else _mapping(made["policy"]),
        tie=_tie(made["tie"]),
        constraints=_mapping(made["constraints"]),
        solver_version=str(version),
        options=_mapping(options),
        effort=solver,
        seeding=None if made["seeding"] is None else _mapping(made["seeding"]),
    )
    bound = result["bound"]
    return {
        "model": str(model["name"]),
        "mesh": {str(dim): _count(size) for dim, size in made["mesh"].items()},
        "cost_model": (str(prices["name"]), str(prices["key"])),
        "solver": str(name),
        "termination": str(result["termination"]),
        "objective": _number(result["objective"]),
        "bound": -math.inf if bound is None else _number(bound),
        "penalty_us": _number(result["penalty_us"]),
        "nodes": tuple(map(_node, document["nodes"])),
        "edges": tuple(map(_edge_of, document["edges"])),
        "graph_key": str(made["graph_key"]),
        "settings": settings,
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
    if isinstance(value, bool) or not isinstance(value, int | float):
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
