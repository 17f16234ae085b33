"""The process of one search: ``python -m berthage_torch.profiling.measure ROW.json OUT.json [--detailed-solution]``.

It writes what it found, or the error that ended it, and answers 0 in both cases; any other answer means that it was
ended before it could write.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from berthage import BerthageError
from berthage.cli.strict_json import to_json
from berthage.files import atomic_write

from .rows import Row, row_of

__all__ = ["main", "measure"]


def measure(row: Row, *, detailed: bool = False) -> dict[str, Any]:
    """Run a search and tell everything about it.

    Args:
        row: What to search.
        detailed: Tell each node's placements and price, and each move's, under ``solution``.

    Returns:
        What ``berthage search --json`` writes; ``timings`` besides with ``import``, ``unattributed`` (what ``total``
        has more than its phases) and ``process`` (everything since the interpreter started).
    """
    wall = time.perf_counter()
    from berthage import SolveParams, load_registry
    from berthage_torch.commands.demands import overridden
    from berthage_torch.commands.documents import search_document
    from berthage_torch.commands.models import model_of
    from berthage_torch.models.spec import ModelSpec
    from berthage_torch.searching.constraints import Constraints
    from berthage_torch.searching.run import default_constraints, run_search

    imported = (time.process_time(), time.perf_counter() - wall)
    module, inputs = model_of(row.model, {name: repr(value) for name, value in row.sizes.items()})

    def constraints(graph: Any, mesh: Any) -> Constraints:
        own = default_constraints(module, graph, mesh) if isinstance(module, ModelSpec) else Constraints()
        asked = overridden(own, graph, row.inputs, row.outputs, row.pins, row.memory)
        return asked if row.peak_memory is None else dataclasses.replace(asked, peak_memory=row.peak_memory)

    found = run_search(
        module,
        inputs,
        row.mesh,
        solver=row.solver,
        constraints=constraints,
        cost_model=row.cost_model,
        tie=row.tie,
        params=SolveParams(time_limit=row.time_limit, gap=row.gap, seed=row.seed, threads=row.threads),
        options=dict(row.options) or None,
        presolve=row.presolve,
        seed_radius=row.seed_radius,
        seed_mode=row.seed_mode,
        repeat_layers=row.repeat_layers,
        registry=load_registry(),
    )
    sizes = module.sizes if isinstance(module, ModelSpec) else row.sizes
    asked = {"model": row.model, "sizes": dict(sizes), "tie": row.tie, "cost_model": row.cost_model}
    document = search_document(found, asked)
    timings = document["timings"]
    total = timings.pop("total")
    phases = [spent for name, spent in timings.items() if name != "compile"]  # which lies in presolve and solve
    left = {clock: total[clock] - sum(spent[clock] for spent in phases) for clock in ("cpu", "wall")}
    whole = {"cpu": time.process_time(), "wall": time.perf_counter() - wall}
    document["timings"] = {
        "import": {"cpu": imported[0], "wall": imported[1]},
        **timings,
        "unattributed": left,
        "total": total,
        "process": whole,
    }
    if detailed and found.plan is not None:
        document["solution"] = {
            "nodes": [dataclasses.asdict(node) for node in found.plan.nodes],
            "edges": [dataclasses.asdict(edge) for edge in found.plan.edges],
        }
    return document


def main(arguments: list[str]) -> None:
    """Measure the row of a file; see the module."""
    source, target, *flags = arguments
    row = row_of(json.loads(Path(source).read_text(encoding="utf-8")))
    try:
        document = measure(row, detailed="--detailed-solution" in flags)
    except Exception as error:  # whatever ends a search is what is told of it
        document = {"error": {"kind": "error", "type": type(error).__name__, "message": str(error)}}
        if not isinstance(error, BerthageError):
            document["error"]["traceback"] = traceback.format_exc()
    with atomic_write(target) as stream:
        stream.write(to_json(document).encode())


if __name__ == "__main__":
    main(sys.argv[1:])
