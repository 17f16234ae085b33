"""Lines about memory, and about what sizes did not allow."""

from __future__ import annotations

from collections.abc import Iterator

from berthage.cli import words as core_words
from berthage_torch.searching.run import SearchResult

__all__ = ["left_out_lines", "memory_line"]

_MOST = 3
"""How many kinds of memory, and how many operations, are told by name."""


def memory_line(found: SearchResult) -> str:
    """The peak of memory over time, when it is, and what it consists of."""
    line = found.memory
    assert line is not None  # there is a plan
    kinds = sorted(((int(use[line.instant]), kind) for kind, use in line.by_kind.items()), reverse=True)
    parts = ", ".join(f"{kind} {_bytes(used)}" for used, kind in kinds[:_MOST] if used)
    return f"memory     at most {_bytes(line.peak)} a rank, at {line.nodes[line.instant]}: {parts}"


def left_out_lines(found: SearchResult) -> Iterator[str]:
    """How many strategies tensors were too small or too odd for."""
    reasons = {"uneven": "have uneven shards where they must be even", "empty": "leave a rank without an element"}
    for name, reason in reasons.items():
        found_in = [each for each in found.left_out if getattr(each, name)]
        if found_in:
            many = _strategies(sum(getattr(each, name) for each in found_in))
            yield f"left out   {many} that would {reason}: {core_words.some([each.op for each in found_in], _MOST)}"


def _strategies(many: int) -> str:
    return "1 strategy" if many == 1 else f"{many} strategies"


def _bytes(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"
