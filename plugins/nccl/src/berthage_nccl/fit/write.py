"""A profile document as TOML."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["to_toml"]


def to_toml(document: Mapping[str, Any]) -> str:
    """TOML of nested tables, arrays of tables and scalars; numbers keep six significant digits."""
    lines: list[str] = []
    _table(document, (), lines)
    return "\n".join(lines).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    for name, value in table.items():
        if not isinstance(value, Mapping | list):
            lines.append(f"{_key(name)} = {_scalar(value)}")
    for name, value in table.items():
        here = (*path, name)
        if isinstance(value, Mapping):
            lines += ["", f"[{'.'.join(_key(part) for part in here)}]"]
            _table(value, here, lines)
        elif isinstance(value, list):
            for row in value:
                lines += ["", f"[[{'.'.join(_key(part) for part in here)}]]"]
                _table(row, here, lines)


def _key(name: str) -> str:
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else json.dumps(name)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = f"{value:.6g}"
        return text if any(mark in text for mark in ".e") else text + ".0"
    return json.dumps(str(value), ensure_ascii=False)
