"""What is kept of each row, and the summary over them. Imports no torch."""

from __future__ import annotations

import csv
import datetime
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from berthage import InvalidProblemError
from berthage.cli.strict_json import to_json
from berthage.files import atomic_write

from .rows import Row

__all__ = ["FORMAT_VERSION", "is_ok", "load_record", "make_record", "summaries", "write_record", "write_summary"]

FORMAT: Final = "berthage-profile"
FORMAT_VERSION: Final = 1
_PHASES: Final = (
    "import", "trace", "seed", "restrict", "enumerate", "price", "build", "presolve", "compile", "solve", "bound",
    "plan", "unattributed", "total", "process",
)  # fmt: skip


def make_record(
    row: Row, environment: Mapping[str, Any], git: Mapping[str, Any] | None, run: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The record of a row.

    Args:
        row: The row.
        environment: See `environment`.
        git: See `git_state`.
        run: Runs the row once in a new process; called as often as the row says, or until it fails.

    Returns:
        What the run of median CPU time told, with ``status`` and, of several runs, the ``runs``.
    """
    runs: list[dict[str, Any]] = []
    while len(runs) < row.repetitions and not (runs and _error(runs[-1])):
        runs.append(run())
    error = _error(runs[-1]) or _disagreement(runs)
    record: dict[str, Any] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "name": row.name,
        "key": row.key,
        "status": "failed" if error else "ok",
        "error": error,
        "recorded": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "configuration": row.configuration,
        "environment": dict(environment),
        "git": git,
    }
    timed = sorted((one for one in runs if "timings" in one), key=lambda one: float(one["timings"]["process"]["cpu"]))
    if timed:
        told = timed[(len(timed) - 1) // 2]
        record |= {name: value for name, value in told.items() if name not in record}
        record["runs"] = [
            {name: one[name] for name in ("objective", "placement_hash", "timings", "peak_rss_bytes")} for one in timed
        ]
    return record


def _error(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """Why a run counts as failed; None when it has a plan."""
    if "error" in told:
        return dict(told["error"])
    if told["placement_hash"] is not None:
        return None
    end = told["termination"]
    return {"kind": "no plan", "message": f"{end['reason']}: {end['detail'] or end['limit'] or 'no reason given'}"}


def _disagreement(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Runs that no limit stopped give one plan."""
    hashes = sorted({one["placement_hash"] for one in runs if one["termination"]["limit"] is None})
    if len(hashes) < 2:
        return None
    return {"kind": "differs", "message": f"{len(runs)} runs gave {len(hashes)} plans", "placement_hashes": hashes}


def is_ok(record: Mapping[str, Any]) -> bool:
    """Whether the row's search gave a plan."""
    return bool(record["status"] == "ok")


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Write a record to ``NAME.json``, atomically."""
    with atomic_write(folder / f"{record['name']}.json") as stream:
        stream.write(to_json(record).encode())


def load_record(folder: Path, row: Row) -> dict[str, Any] | None:
    """What is kept of a row; None when nothing is, or what is was of another configuration.

    Raises:
        InvalidProblemError: The file is there and is no record.
    """
    path = folder / f"{row.name}.json"
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["format"] != FORMAT or record["format_version"] != FORMAT_VERSION:
            raise ValueError(f"not a {FORMAT} of version {FORMAT_VERSION}")
        return dict(record) if record["key"] == row.key else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidProblemError(f"{path}: no record of a profile ({error}); move it away") from None


# -- the summary ----------------------------------------------------------------------------------


def summaries(rows: Iterable[Row], records: Mapping[str, Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A flat line for each row that has a record; ``excess`` is how far above the best of the same question it is."""
    kept = [(row, records[row.name]) for row in rows if row.name in records]
    best: dict[str, float] = {}
    for row, record in kept:
        if is_ok(record):
            best[row.question] = min(float(record["objective"]), best.get(row.question, float("inf")))
    for row, record in kept:
        line: dict[str, Any] = {"name": row.name, "status": record["status"]}
        line["error"] = f"{record['error']['kind']}: {record['error']['message']}" if record["error"] else None
        line |= {name: getattr(row, name) for name in ("model", "mesh", "solver", "seed_radius", "tie")}
        line["termination"] = (record.get("termination") or {}).get("reason")
        line |= {name: record.get(name) for name in ("objective", "bound", "gap")}
        ok = is_ok(record)
        line["excess"] = float(record["objective"]) / best[row.question] - 1.0 if ok and best[row.question] else None
        seeding = record.get("seeding") or {}
        line |= {name: seeding.get(name) for name in ("coverage", "lost_at_most")}
        line |= {name: record.get(name) for name in ("placement_hash", "nodes", "variables", "peak_rss_bytes")}
        timings = record.get("timings") or {}
        line |= {f"{phase}_cpu": timings.get(phase, {}).get("cpu") for phase in _PHASES}
        line |= {f"{phase}_wall": timings.get(phase, {}).get("wall") for phase in ("total", "process")}
        yield line


def write_summary(folder: Path, lines: Sequence[Mapping[str, Any]]) -> None:
    """Write ``summary.json`` and ``summary.csv``, atomically."""
    document = {"format": f"{FORMAT}-summary", "format_version": FORMAT_VERSION, "rows": list(lines)}
    with atomic_write(folder / "summary.json") as stream:
        stream.write(to_json(document).encode())
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]) if lines else ["name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    with atomic_write(folder / "summary.csv") as stream:
        stream.write(text.getvalue().encode())
