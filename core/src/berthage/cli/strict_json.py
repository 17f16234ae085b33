"""Strict JSON: no NaN, no infinities, one top-level key a line."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any, Final

FORMAT_VERSION: Final = 1


def plain(value: Any) -> Any:
    """``value`` as JSON can say it: what is not finite becomes null, arrays become lists."""
    if value is None or (isinstance(value, bool | str) and not isinstance(value, enum.Enum)):
        return value
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if hasattr(value, "tolist"):  # a numpy array or number
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    return str(value)


def to_json(document: Mapping[str, Any]) -> str:
    """Strict JSON, one top-level key a line, so that long assignments stay on one."""
    lines = [
        f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for key, value in plain(document).items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
