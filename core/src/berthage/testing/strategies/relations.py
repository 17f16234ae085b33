"""Hard relations for drawn problems."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from berthage import ProblemBuilder

__all__ = ["add_relations"]


def add_relations(draw: st.DrawFn, builder: ProblemBuilder, sizes: list[int]) -> None:
    """Add one to three hard relations; together they may be contradictory."""
    count = len(sizes)
    kinds = ["forbid", "allow", "fix"] + (["forbid pairs", "allow pairs", "tie", "map"] if count > 1 else [])
    for index in range(draw(st.integers(1, 3))):
        name = f"relation {index}"
        u = draw(st.integers(0, count - 1))
        rows = sizes[u]
        v = (u + draw(st.integers(1, count - 1))) % count if count > 1 else u
        cols = sizes[v]
        match draw(st.sampled_from(kinds)):
            case "forbid":
                builder.forbid(u, [draw(st.integers(0, rows - 1))], name=name)
            case "allow":
                some = st.lists(st.integers(0, rows - 1), min_size=1, unique=True)
                builder.allow(u, draw(some), name=name)
            case "fix":
                builder.fix(u, draw(st.integers(0, rows - 1)), name=name)
            case "forbid pairs":
                pair = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1))
                builder.forbid_pairs(u, v, draw(st.lists(pair, min_size=1, max_size=4)), name=name)
            case "allow pairs":
                flags = draw(st.lists(st.booleans(), min_size=rows * cols, max_size=rows * cols))
                builder.allow_pairs(u, v, np.array(flags, dtype=bool).reshape(rows, cols), name=name)
            case "tie" if rows == cols:
                builder.tie(u, v, {a: a for a in range(rows)}, name=name)
            case _:
                images = draw(st.lists(st.integers(0, cols - 1), min_size=rows, max_size=rows))
                builder.tie(u, v, dict(enumerate(images)), name=name)
