"""Write ``pipeline.json``: where to keep the tensors of a small training step on a 2 x 4 mesh of devices.

The step is a chain of matrix products ``y = x @ w``, twelve layers of changing width, every second with a
shortcut over it. Each layer gives two variables:

* the **product**: one of four ways to split it along each of the two mesh dimensions (by rows of ``x``,
  by columns of ``w``, along the summed dimension, or not at all), so 16 labels. Its cost is the compute time
  and the time for the reductions that the split asks for; its memory is ``y``, from the forward pass until
  the backward pass.
* the **weight**: how ``w`` and its optimiser state are kept (whole, split by rows, split by columns, again
  along each mesh dimension), so 9 labels. It costs nothing, but it holds memory during the whole step.

An edge is the time to bring a tensor from how it is kept to how it is wanted. Times are whole
nanoseconds, memory is bytes on one device. The numbers are made up, but have the proportions of real ones.

Usage: ``python make_pipeline.py > pipeline.json``
"""

from __future__ import annotations

import itertools
import json
import sys

MESH = (2, 4)
BYTES_PER_NS = (25, 100)  # along each mesh dimension: between machines, within one
LATENCY_NS = 8_000
FLOPS_PER_NS = 200_000
ROWS = 8192
WIDTHS = (1024, 4096, 1024, 2048, 2048, 8192, 2048, 1024, 4096, 4096, 1024, 512, 2048)
LAYERS = len(WIDTHS) - 1
STEP = 2 * LAYERS  # instants: every layer forward, then every layer backward
LIMIT_BYTES = 400_000_000

# One way to split y = x @ w along one mesh dimension: how x, w and y lie, and what must be summed up.
SPLITS = (
    ("S0", "R", "S0", "w"),  # by rows of x: the weight's gradient is summed over the parts
    ("R", "S1", "S1", "x"),  # by columns of w: the gradient of x is summed
    ("S1", "S0", "R", "y"),  # along the summed dimension: the result is summed
    ("R", "R", "R", ""),
)
PLACEMENTS = ("R", "S0", "S1")
PRODUCTS = tuple(itertools.product(SPLITS, repeat=len(MESH)))
WEIGHTS = tuple(itertools.product(PLACEMENTS, repeat=len(MESH)))


def shards(placement: tuple[str, ...]) -> int:
    """Into how many parts a placement cuts a tensor."""
    parts = 1
    for kind, size in zip(placement, MESH, strict=True):
        parts *= 1 if kind == "R" else size
    return parts


def sent(dimension: int, size_bytes: int) -> int:
    """Nanoseconds to send ``size_bytes`` along a mesh dimension."""
    return LATENCY_NS + size_bytes // BYTES_PER_NS[dimension]


def moved(size_bytes: int, kept: tuple[str, ...], wanted: tuple[str, ...]) -> int:
    """Nanoseconds to bring a tensor from one placement to another: gathers, exchanges, free slices."""
    total = 0
    for dimension, (old, new, devices) in enumerate(zip(kept, wanted, MESH, strict=True)):
        if old == new or old == "R":
            continue
        arriving = size_bytes * (devices - 1) // devices
        total += sent(dimension, arriving if new == "R" else arriving // devices)
    return total


def product_cost(layer: int, splits: tuple[tuple[str, str, str, str], ...]) -> int:
    """Nanoseconds of a product, forward and backward, with the sums that its splits ask for."""
    inner, outer = WIDTHS[layer], WIDTHS[layer + 1]
    parts = {"w": 2 * inner * outer, "x": 2 * ROWS * inner, "y": 2 * ROWS * outer, "": 0}
    pieces = 1
    total = 0
    for dimension, (split, devices) in enumerate(zip(splits, MESH, strict=True)):
        pieces *= devices if split[3] else 1
        if split[3]:
            total += sent(dimension, 2 * parts[split[3]] * (devices - 1) // devices)
    return total + 6 * ROWS * inner * outer // (FLOPS_PER_NS * pieces)


def along(splits: tuple[tuple[str, str, str, str], ...], tensor: int) -> tuple[str, ...]:
    """The placement that splits give to x (0), w (1) or y (2)."""
    return tuple(split[tensor] for split in splits)


def make() -> dict[str, object]:
    """The problem, in the IOPDDL form: products are the even nodes, weights the odd ones."""
    intervals, costs, usages, pairs, tables = [], [], [], [], []
    for layer in range(LAYERS):
        inner, outer = WIDTHS[layer], WIDTHS[layer + 1]
        intervals += [[layer, STEP - layer], [0, STEP]]
        costs += [[product_cost(layer, splits) for splits in PRODUCTS], [0] * len(WEIGHTS)]
        # The weight's entries: 2 bytes, as much for the gradient, 12 for the optimiser.
        usages += [
            [2 * ROWS * outer // shards(along(splits, 2)) for splits in PRODUCTS],
            [16 * inner * outer // shards(placement) for placement in WEIGHTS],
        ]
        pairs.append([2 * layer, 2 * layer + 1])
        tables.append([moved(2 * inner * outer, kept, along(splits, 1)) for splits in PRODUCTS for kept in WEIGHTS])
        sources = [layer - 1] if layer % 2 == 0 else [layer - 1, layer - 2]
        for source in (source for source in sources if source >= 0):
            size = 2 * ROWS * WIDTHS[source + 1]
            pairs.append([2 * source, 2 * layer])
            tables.append([2 * moved(size, along(a, 2), along(b, 0)) for a, b in itertools.product(PRODUCTS, repeat=2)])
    nodes = {"intervals": intervals, "costs": costs, "usages": usages}
    return {
        "problem": {
            "name": "pipeline",
            "nodes": nodes,
            "edges": {"nodes": pairs, "costs": tables},
            "usage_limit": LIMIT_BYTES,
        }
    }


def compact(value: object, depth: int = 0) -> str:
    """JSON with one innermost list a line, so that people can read it and a change shows in a diff."""
    if isinstance(value, dict):
        inside = ",\n".join(
            f"{' ' * (depth + 1)}{json.dumps(key)}: {compact(item, depth + 1)}" for key, item in value.items()
        )
        return f"{{\n{inside}\n{' ' * depth}}}"
    if isinstance(value, list) and value and isinstance(value[0], list):
        inside = ",\n".join(f"{' ' * (depth + 1)}{json.dumps(item)}" for item in value)
        return f"[\n{inside}\n{' ' * depth}]"
    return json.dumps(value)


if __name__ == "__main__":
    sys.stdout.write(compact(make()) + "\n")
