"""A search as JSON has it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from berthage.cli.strict_json import FORMAT_VERSION
from berthage_torch.searching.run import SearchResult
from berthage_torch.searching.seed_report import seed_document
from berthage_torch.usage import peak_rss_bytes

__all__ = ["search_document"]

_PHASES = (
    "trace", "seed", "restrict", "enumerate", "price", "build", "presolve", "compile", "solve", "bound", "plan",
    "untied", "total",
)  # fmt: skip


def search_document(found: SearchResult, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that is known of a search; what is not known is null.

    Args:
        found: The search.
        asked: What was asked for and the search does not know: ``model``, ``sizes``, ``cost_model`` and ``tie``.
    """
    result, built, plan = found.result, found.built, found.plan
    untied = found.untied
    lost = None
    if untied is not None and untied.objective is not None and result.objective is not None:
        lost = result.objective - untied.objective
    return {
        "format_version": FORMAT_VERSION,
        "model": asked["model"],
        "sizes": asked["sizes"],
        "mesh": dict(zip(built.pricer.mesh.names, built.pricer.mesh.sizes, strict=True)),
        "cost_model": asked["cost_model"],
        "solver": {"name": result.solver, "version": result.solver_version},
        "termination": {
            "reason": result.termination.reason,
            "limit": result.termination.limit,
            "detail": result.termination.detail,
        },
        "objective": result.objective,
        "bound": result.bound,
        "gap": result.relative_gap,
        "placement_hash": None if plan is None else plan.placement_hash(),
        "compute_us": None if plan is None else plan.compute_us,
        "communication_us": None if plan is None else plan.communication_us,
        "nodes": len(built.graph.nodes),
        "variables": found.problem.num_variables,
        "tie": asked["tie"],
        "untied": None if untied is None else {"objective": untied.objective, "bound": untied.bound, "lost": lost},
        "constraints": _fields(found.constraints),
        "seeding": None if found.seeding is None else seed_document(found.seeding),
        "infeasibility": _why(found),
        "memory": _memory(found),
        "left_out": [dataclasses.asdict(each) for each in found.left_out],
        "timings": {
            name: {"cpu": found.timings[name][0], "wall": found.timings[name][1]}
            for name in _PHASES
            if name in found.timings
        },
        "stats": dict(result.stats),
        "peak_rss_bytes": peak_rss_bytes(),
    }


def _fields(value: Any) -> Any:
    """A frozen dataclass, and those in it, as a mapping."""
    if not dataclasses.is_dataclass(value):
        return value
    return {field.name: _fields(getattr(value, field.name)) for field in dataclasses.fields(value)}


def _memory(found: SearchResult) -> dict[str, Any] | None:
    """Bytes that a rank holds when it holds most, and which node runs then."""
    line = found.memory
    if line is None:
        return None
    at = line.instant
    kinds = {kind: int(use[at]) for kind, use in line.by_kind.items()}
    return {"peak_bytes": line.peak, "instant": at, "node": line.nodes[at], "by_kind": kinds}


def _why(found: SearchResult) -> dict[str, Any] | None:
    reason = found.result.infeasibility
    if reason is None:
        return None
    return {"detail": reason.detail, "constraints": reason.constraints, "least_limit": reason.least_limit}
