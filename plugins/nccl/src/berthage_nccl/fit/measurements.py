"""Reading measurements: CSV with named columns, or what nccl-tests prints."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError
from berthage_nccl.compute import dtype_key
from berthage_nccl.profile import COLLECTIVES

__all__ = ["Context", "Measurement", "Products", "network_family", "read_gemms", "read_measurements"]

_STARTING: Final = re.compile(r"(all_gather|reduce_scatter|all_reduce|alltoall|all_to_all)(?:_perf)?", re.IGNORECASE)
_RANK: Final = re.compile(r"#\s+Rank\s+\d+.*?\bon\s+(\S+)", re.IGNORECASE)
_LEAST_COLUMNS: Final = 12


@dataclass(frozen=True, slots=True)
class Context:
    """What a file does not say itself; None where it does.

    Attributes:
        collective: Name of the collective, in any usual spelling.
        nodes: Nodes.
        gpus_per_node: Ranks on each.
        network: Network family.
        source: Who measured.
    """

    collective: str | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    network: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """One timed collective; ``bytes`` is nccl-tests' size, ``network`` is empty on one node."""

    source: str
    collective: str
    nodes: int
    ranks_per_node: int
    network: str
    bytes: float
    us: float


@dataclass(frozen=True, slots=True)
class Products:
    """Timed matrix products of one dtype.

    Attributes:
        dtype: Dtype of the operands.
        shapes: ``int64[R, 4]``: batch, m, n, k.
        us: ``float64[R]``.
    """

    dtype: str
    shapes: npt.NDArray[np.int64]
    us: npt.NDArray[np.float64]


def network_family(text: str) -> str:
    """The family that a free description names: ``ib``, ``efa``, ``tcpxo``, ``roce``; empty inside a node."""
    lowered = text.lower()
    words = {"tcpxo": "tcpxo", "efa": "efa", "roce": "roce", "infiniband": "ib", "ib": "ib"}
    for word, family in words.items():
        if re.search(rf"(?<![a-z]){word}(?![a-z])", lowered):
            return family
    if not lowered or "nvswitch" in lowered or "nvlink" in lowered:
        return ""
    return re.sub(r"[^a-z0-9]+", "-", lowered).strip("-")


def read_measurements(path: Path, context: Context | None = None) -> list[Measurement]:
    """The measurements of a file.

    CSV needs the columns ``collective, nodes, gpus_per_node, size_bytes, time_us``; ``net`` and ``source`` are
    used when present, and ``context`` fills in what is absent. Anything else is read as the output of nccl-tests,
    whose out-of-place times are taken.

    Raises:
        InvalidProblemError: The file cannot be understood; the message says where.
    """
    context = context or Context()
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidProblemError(f"{path}: {error}") from error
    head = next((line for line in text.splitlines() if line.strip()), "")
    if "size_bytes" in head:
        found = list(_from_csv(text, path, context))
    else:
        found = list(_from_nccl_tests(text, path, context))
    if not found:
        raise InvalidProblemError(
            f"{path}: no measurements; expected a CSV with size_bytes and time_us, or nccl-tests output"
        )
    return found


def read_gemms(path: Path) -> list[Products]:
    """Matrix products from CSV with the columns ``b, m, n, k, dtypes, time_us``, by dtype of the operands.

    Raises:
        InvalidProblemError: The file cannot be understood; the message says where.
    """
    rows: dict[str, list[tuple[int, int, int, int, float]]] = {}
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            for number, row in enumerate(csv.DictReader(stream), start=2):
                try:
                    key = dtype_key(row["dtypes"].split("x")[0].split("->")[0])
                    b, m, n, k = (int(row[name]) for name in "bmnk")
                    us = float(row["time_us"])
                except (KeyError, TypeError, ValueError) as error:
                    raise InvalidProblemError(f"{path}, line {number}: {error}") from error
                if min(b, m, n, k) < 1 or not us > 0:
                    raise InvalidProblemError(f"{path}, line {number}: sizes and times must be above 0")
                rows.setdefault(key, []).append((b, m, n, k, us))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidProblemError(f"{path}: {error}") from error
    found = []
    for key in sorted(rows):
        table = np.array(rows[key])
        found.append(Products(key, table[:, :4].astype(np.int64), table[:, 4]))
    return found


def _collective(text: str) -> str:
    name = text.strip().lower().replace("_", "-").replace("alltoall", "all-to-all").removesuffix("-perf")
    name = {"allreduce": "all-reduce", "allgather": "all-gather", "reducescatter": "reduce-scatter"}.get(name, name)
    if name not in COLLECTIVES:
        raise ValueError(f"unknown collective {text!r}; known: {', '.join(COLLECTIVES)}")
    return name


def _from_csv(text: str, path: Path, context: Context) -> Iterator[Measurement]:
    for number, row in enumerate(csv.DictReader(text.splitlines()), start=2):
        try:
            nodes = int(row.get("nodes") or context.nodes or 1)
            found = Measurement(
                row.get("source") or context.source or path.stem,
                _collective(row.get("collective") or context.collective or ""),
                nodes,
                int(row.get("gpus_per_node") or context.gpus_per_node or 0),
                "" if nodes == 1 else context.network or network_family(row.get("net") or ""),
                float(row["size_bytes"]),
                float(row["time_us"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidProblemError(f"{path}, line {number}: {error}") from error
        yield _checked(found, f"{path}, line {number}")


def _from_nccl_tests(text: str, path: Path, context: Context) -> Iterator[Measurement]:
    """The table that nccl-tests prints: size, count, type, redop, root, then time, algbw, busbw, #wrong twice."""
    lines = text.splitlines()
    hosts = [match.group(1) for line in lines if (match := _RANK.match(line))]
    nodes = context.nodes or len(set(hosts)) or 1
    per_node = context.gpus_per_node or (len(hosts) // nodes if hosts else 0)
    named = next((match.group(1) for line in lines if (match := _STARTING.search(line))), "")
    try:
        collective = _collective(context.collective or named)
    except ValueError as error:
        raise InvalidProblemError(f"{path}: {error}; say which with --collective") from error
    network = "" if nodes == 1 else context.network or ""
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if len(words) < _LEAST_COLUMNS or not words[0].isdecimal():
            continue
        try:
            size, us = float(words[0]), float(words[5])
        except ValueError as error:
            raise InvalidProblemError(f"{path}, line {number}: {error}") from error
        if size > 0:
            found = Measurement(context.source or path.stem, collective, nodes, per_node, network, size, us)
            yield _checked(found, f"{path}, line {number}")


def _checked(found: Measurement, where: str) -> Measurement:
    if found.ranks_per_node < 1:
        raise InvalidProblemError(f"{where}: how many GPUs a node is not said; give --gpus-per-node")
    if found.nodes < 1 or not (0 < found.bytes < float("inf")) or not (0 < found.us < float("inf")):
        raise InvalidProblemError(f"{where}: sizes and times must be above 0")
    if found.nodes > 1 and not found.network:
        raise InvalidProblemError(f"{where}: which network joins the nodes is not said; give --net")
    return found
