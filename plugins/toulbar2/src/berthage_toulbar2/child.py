"""The process that searches: reads a problem from a folder, runs toulbar2, writes what it found.

Started as ``python -m berthage_toulbar2.child FOLDER``. What it writes is a JSON object: ``labels`` (or null),
``limited`` (whether a limit ended the search: the only sign that there is no proof), ``bound`` and ``nodes``; or
``error``.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path) -> None:
    """Solve the problem in a folder."""
    with np.load(folder / "problem.npz", allow_pickle=False) as data:
        problem = {name: data[name] for name in data.files}
    limit = int(problem["memory"]) << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        found = _search(problem)
    except MemoryError:
        found = {"error": "memory"}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    partial = folder / "partial.json"
    partial.write_text(json.dumps(found))
    partial.rename(folder / "found.json")


def _search(problem: dict[str, Any]) -> dict[str, Any]:
    import pytoulbar2

    # Whole costs, no decimals: with a resolution above 0 toulbar2 would round each cost by itself.
    network = pytoulbar2.CFN(
        float(problem["top"]), resolution=0, vac=int(problem["vac"]), seed=int(problem["seed"]), verbose=-1
    )
    if int(problem["backtracks"]) >= 0:
        network.Option.backtrackLimit = int(problem["backtracks"])
    try:
        for v, count in enumerate(problem["counts"].tolist()):
            network.AddVariable(f"x{v}", range(count))
        start = 0
        for v, count in enumerate(problem["counts"].tolist()):
            network.AddFunction([v], problem["unary"][start : start + count].astype(float).tolist())
            start += count
        for u, v, t in problem["edges"].tolist():
            network.AddFunction([u, v], problem[f"table{t}"].astype(float).ravel().tolist())
        found = network.Solve(timeLimit=int(problem["seconds"]))
    except pytoulbar2.tb2.Contradiction:
        # nothing costs less than the top
        return {"labels": None, "limited": False, "bound": float(problem["top"]), "nodes": 0}
    limited = bool(network.Option.limited)
    return {
        "labels": None if found is None else [int(label) for label in found[0]],
        "limited": limited,
        "bound": float(network.GetDDualBound()) if limited else None,
        "nodes": int(network.GetNbNodes()),
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
