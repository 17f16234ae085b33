"""A profile that extends another: what it does not say is carried over, rescaled by the hardware's ratios."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["inherit"]


def inherit(base: Mapping[str, Any], own: Mapping[str, Any], base_name: str) -> dict[str, Any]:
    """``base`` with ``own`` laid over it.

    Tables are merged name by name. Fitted rows of the base are kept where ``own`` has none for the same thing;
    a curve's bandwidth is multiplied by the ratio of NVLink (one node) or NIC bandwidths (several nodes). What was
    fitted on another device is marked ``extrapolated``. Where the switch no longer reduces, the base's one-node
    all-reduce is not carried over (it follows from reduce-scatter and all-gather).
    """
    merged = _laid_over(base, own)
    other_device = base["device"]["name"] != merged["device"]["name"]
    loses_nvls = base["node"]["nvls"] and not merged["node"]["nvls"]
    mine = [dict(row) for row in own.get("curves", [])]
    have = {_curve_key(row) for row in mine}
    for row in base.get("curves", []):
        if _curve_key(row) in have or (loses_nvls and row["collective"] == "all-reduce"):
            continue
        ratio, changed = _bandwidth_ratio(base, merged, row)
        carried = _carried(row, base_name, other_device or changed)
        mine.append(carried | {"bandwidth_GBps": row["bandwidth_GBps"] * ratio})
    merged["curves"] = mine
    gemms = [dict(row) for row in own.get("gemms", [])]
    said = {row.get("dtype") for row in gemms}
    gemms += [_carried(row, base_name, other_device) for row in base.get("gemms", []) if row["dtype"] not in said]
    merged["gemms"] = [row for row in gemms if row.get("dtype") in merged["device"]["peak_tflops"]]
    return merged


def _laid_over(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for name, value in own.items():
        below = merged.get(name)
        # Peaks are not filled in: a device without a dtype must not get another device's.
        fill = isinstance(value, Mapping) and isinstance(below, Mapping) and name != "peak_tflops"
        merged[name] = _laid_over(below, value) if fill else value  # type: ignore[arg-type]
    return merged


def _curve_key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row.get("collective"), row.get("nodes"), row.get("ranks_per_node"), row.get("network"))


def _carried(row: Mapping[str, Any], base_name: str, extrapolated: bool) -> dict[str, Any]:
    if not extrapolated:
        return dict(row)
    return dict(row) | {"extrapolated": True, "source": f"{row['source']} (carried over from {base_name})"}


def _bandwidth_ratio(base: Mapping[str, Any], merged: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[float, bool]:
    if row["nodes"] == 1:
        ratio = merged["node"]["nvlink_GBps"] / base["node"]["nvlink_GBps"]
    else:
        old, new = (doc["networks"][row["network"]]["nic_GBps"] for doc in (base, merged))
        ratio = new / old
    return ratio, ratio != 1.0
