"""What an operation does on one rank, for every label at once: floating-point operations and bytes moved.

Counted from local shapes by the largest shard. Views move nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from berthage_nccl import Mesh
from berthage_nccl.placements import shard
from berthage_torch.graph import Node, TensorMeta

from .strategies import Int8, Strategies

__all__ = ["Work", "is_free", "local_sizes", "work"]

Floats: TypeAlias = npt.NDArray[np.float64]

_VIEWS: Final = frozenset(
    [
        "view", "_unsafe_view", "reshape", "t", "transpose", "permute", "movedim", "unsqueeze", "squeeze", "expand",
        "slice", "select", "narrow", "split", "split_with_sizes", "unbind", "chunk", "alias", "detach", "as_strided",
        "diagonal", "unfold", "lift_fresh", "lift_fresh_copy", "view_as_real", "view_as_complex", "real", "imag",
        "_conj", "sym_size",
    ]
)  # fmt: skip
# These read only the rows they are asked for.
_LOOKUPS: Final = frozenset(
    ("aten.embedding.default", "aten.index.Tensor", "aten.gather.default", "aten.index_select.default")
)
# Where attention says that it is causal.
_CAUSAL: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_flash_attention.default": 4,
        "aten._scaled_dot_product_flash_attention_for_cpu.default": 4,
        "aten._scaled_dot_product_efficient_attention.default": 6,
        "aten._scaled_dot_product_cudnn_attention.default": 6,
        "aten._scaled_dot_product_flash_attention_backward.default": 11,
        "aten._scaled_dot_product_flash_attention_for_cpu_backward.default": 7,
        "aten._scaled_dot_product_efficient_attention_backward.default": 11,
        "aten._scaled_dot_product_cudnn_attention_backward.default": 14,
    }
)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a node under each of L labels.

    Attributes:
        flops: ``float64[L]``.
        bytes: ``float64[L]``: read and written.
        matmul: Whether it is a matrix product (tensor cores).
        dtype: Of the operands.
        shapes: ``float64[L, 4]``: batch, m, n, k where it is one product (m, k) x (k, n), batched or not; else None.
    """

    flops: Floats
    bytes: Floats
    matmul: bool
    dtype: str
    shapes: Floats | None = None

    def share(self, ranks: float) -> Work:
        """An even share of it: the batch is cut first, then the rows of the products."""
        shapes = self.shapes
        if shapes is not None:
            shapes = shapes.copy()
            rest = np.maximum(ranks / shapes[:, 0], 1.0)
            shapes[:, 0] = np.ceil(shapes[:, 0] / ranks)
            shapes[:, 1] = np.ceil(shapes[:, 1] / rest)
        return Work(self.flops / ranks, self.bytes / ranks, self.matmul, self.dtype, shapes)


def is_free(node: Node) -> bool:
    """Whether a node does nothing on the device: no operation, or a view."""
    return node.kind != "op" or _base(node) in _VIEWS


def _base(node: Node) -> str:
    """``mm`` of ``aten.mm.default``; "" of what is not torch's."""
    parts = node.op.split(".")
    return parts[1] if parts[0] == "aten" else ""


def local_sizes(meta: TensorMeta, placements: Int8, mesh: Mesh) -> Floats:
    """``float64[L, rank]``: the largest local shape under each of the placements ``int8[L, D]``."""
    sizes = np.empty((len(placements), len(meta.shape)))
    many = np.array(mesh.sizes, dtype=np.int64)
    for d, size in enumerate(meta.shape):
        ranks = np.where(placements == shard(d), many, 1).prod(axis=1)
        sizes[:, d] = -(-size // ranks)
    return sizes


def work(strategies: Strategies) -> Work:
    """The work of a node that is not free."""
    node, mesh = strategies.node, strategies.mesh
    inputs = [local_sizes(meta, strategies.inputs[:, a], mesh) for a, meta in enumerate(strategies.metas)]
    outputs = [
        np.empty((len(strategies), 0)) if meta is None else local_sizes(meta, strategies.outputs[:, o], mesh)
        for o, meta in enumerate(node.outputs)
    ]
    read = [sizes.prod(axis=1) * meta.itemsize for sizes, meta in zip(inputs, strategies.metas, strict=True)]
    written = [
        np.zeros(len(strategies)) if meta is None else sizes.prod(axis=1) * meta.itemsize
        for sizes, meta in zip(outputs, node.outputs, strict=True)
    ]
    nothing = np.zeros(len(strategies))
    if node.op in _LOOKUPS:
        read[0] = sum(written, nothing)
    moved = sum(read, nothing) + sum(written, nothing)
    dtype = next((meta.dtype for meta in (*strategies.metas, *node.outputs) if meta is not None), "float32")
    shape, count = _SHAPES.get(_base(node)), _PRODUCTS.get(_base(node))
    if shape is not None and inputs:
        shapes = np.maximum(shape(node, inputs), 1.0)
        return Work(2.0 * shapes.prod(axis=1), moved, True, dtype, shapes)
    if count is not None and inputs:
        return Work(count(node, inputs, outputs), moved, True, dtype)
    return Work(sum((sizes.prod(axis=1) for sizes in outputs), nothing), moved, False, dtype)


# -- matrix products ------------------------------------------------------------------------------

_Count: TypeAlias = Callable[[Node, list[Floats], list[Floats]], Floats]


def _mm(node: Node, inputs: list[Floats]) -> Floats:
    """The last two arguments are the factors: (b, m, k) x (b, k, n) with b, m and n or without."""
    left, right = inputs[-2], inputs[-1]
    ones = np.ones(len(left))
    batch = left[:, 0] if left.shape[1] > 2 else ones
    rows = left[:, -2] if left.shape[1] > 1 else ones
    columns = right[:, -1] if right.shape[1] > 1 else ones
    return np.stack([batch, rows, columns, left[:, -1]], axis=1)


def _attention(node: Node, inputs: list[Floats], outputs: list[Floats]) -> Floats:
    """Two products forward; five backward, where the scores are computed again."""
    backward = "backward" in node.op
    query, key, value = inputs[1:4] if backward else inputs[:3]
    scores = query[:, :3].prod(axis=1) * key[:, 2]
    across, along = query[:, 3], value[:, 3]
    flops = 2.0 * scores * ((3 * across + 2 * along) if backward else (across + along))
    return np.asarray(flops * (0.5 if _is_causal(node) else 1.0))


def _is_causal(node: Node) -> bool:
    named: Mapping[str, Any] = dict(node.kwargs)
    place = _CAUSAL.get(node.op, len(node.args))
    return bool(named.get("is_causal", node.args[place] if place < len(node.args) else False))


def _convolution(node: Node, inputs: list[Floats], outputs: list[Floats]) -> Floats:
    """Every element of the result takes one filter's worth of multiplications; backward twice, for both factors."""
    if "backward" in node.op:
        gradient, weight = inputs[0], inputs[2]
        return np.asarray(4.0 * gradient.prod(axis=1) * weight[:, 1:].prod(axis=1))
    return np.asarray(2.0 * outputs[0].prod(axis=1) * inputs[1][:, 1:].prod(axis=1))


def _einsum(node: Node, inputs: list[Floats]) -> Floats:
    """Letters of both factors and the result are the batch, of one its rows or columns; the others are summed."""
    sides, _, result = str(node.args[0]).replace(" ", "").partition("->")
    terms = sides.split(",")
    sizes: dict[str, Floats] = {}
    for term, here in zip(terms, inputs, strict=True):
        sizes.update((letter, here[:, d]) for d, letter in enumerate(term))
    shape = np.ones((4, len(inputs[0])))
    for letter, size in sizes.items():
        left, right = letter in terms[0], letter in terms[-1]
        place = 3 if letter not in result else 0 if left and right else 1 if left else 2
        shape[place] *= size
    return shape.T


_SHAPES: Final[Mapping[str, Callable[[Node, list[Floats]], Floats]]] = MappingProxyType(
    {"mm": _mm, "bmm": _mm, "addmm": _mm, "baddbmm": _mm, "mv": _mm, "dot": _mm, "einsum": _einsum}
)
_PRODUCTS: Final[Mapping[str, _Count]] = MappingProxyType(
    {
        "convolution": _convolution,
        "convolution_backward": _convolution,
        **{name.split(".")[1]: _attention for name in _CAUSAL},
    }
)
