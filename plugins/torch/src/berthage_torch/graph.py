"""The traced training step as plain data: what the search works on. Imports no torch.

Every node is one tensor operation (or a parameter, buffer, input, tangent, output); the outputs of a
multi-output operation are indices, not nodes. Nodes are in topological order: forward first, then backward.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

__all__ = [
    "Edge",
    "LocalMap",
    "Named",
    "Node",
    "OpGraph",
    "Placements",
    "Ref",
    "Region",
    "TensorMeta",
    "iterate_refs",
    "names_node",
    "resolve_placements",
]

Placements: TypeAlias = tuple[int, ...] | tuple[tuple[str, int], ...]
"""Placement codes as declared in model code: one per mesh dimension, or ``(axis name, code)`` pairs."""

REPLICATE = 0


@dataclass(frozen=True, slots=True)
class TensorMeta:
    """What is known of a tensor without its values: the global (unsharded) shape and layout.

    Attributes:
        shape: Global sizes.
        dtype: Name without ``torch.``, e.g. ``"bfloat16"``.
        itemsize: Bytes an element.
        stride: Global strides in elements.
    """

    shape: tuple[int, ...]
    dtype: str
    itemsize: int
    stride: tuple[int, ...]

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def nbytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.numel * self.itemsize


class Ref(NamedTuple):
    """A tensor argument: output ``output`` of node ``node``."""

    node: int
    output: int = 0


class Named(NamedTuple):
    """A constant argument that only torch knows: ``kind`` is dtype, device, layout or memory_format."""

    kind: str
    value: str


class Edge(NamedTuple):
    """A real edge: output ``output`` of ``producer`` is ``consumer.inputs[position]``."""

    producer: int
    output: int
    consumer: int
    position: int


@dataclass(frozen=True, slots=True)
class Region:
    """The operations inside a `local_map` region, at global shapes, for pricing.

    ``nodes[i]`` for ``i < len(inputs of the owner)`` are of kind ``"input"``, in the order of the owner's
    ``inputs``; refs inside count from the region's first node. ``outputs`` are in the order of the owner's.
    """

    nodes: tuple[Node, ...]
    outputs: tuple[Ref, ...]


@dataclass(frozen=True, slots=True)
class LocalMap:
    """The declared placements of one direction of a `local_map` region.

    Attributes:
        inputs: One for each of the node's ``inputs``; None where the tensor is a value saved inside the region by the
            other direction: it stays where it is, is never moved and never priced.
        outputs: One for each of the node's ``outputs``; None as above.
        body: The operations inside.
        pair: Index of the node of the other direction, -1 when there is none.
        positions: Which tensor arguments of the function the node's first ``inputs`` are, and which of its results the
            first ``outputs``; of the backward direction, of which results it takes gradients, and of which tensor
            arguments it gives them.
        run: The function, of all its tensor arguments in a list; None in a graph from data.
    """

    inputs: tuple[Placements | None, ...]
    outputs: tuple[Placements | None, ...]
    body: Region
    pair: int = -1
    positions: tuple[tuple[int, ...], tuple[int, ...]] = field(default=((), ()), compare=False, repr=False)
    run: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Node:
    """One node.

    Attributes:
        index: Its place in the graph.
        name: Unique, readable, and the same in every trace of a module: ``"layers.3.attention.wq/mm"``,
            ``"layers.3.attention.wq/backward.mm_1"``, ``"norm.weight"`` (a parameter or buffer), ``"input:args[0]"``,
            ``"tangent:output"``, ``"output"``, ``"gradient:norm.weight"``.
        kind: ``parameter``, ``buffer``, ``constant``, ``input``, ``tangent``, ``op`` or ``output``.
        op: Operation name, e.g. ``"aten.mm.default"``; ``"berthage.local_map"`` and
            ``"berthage.local_map_backward"`` are whole regions; "" unless an op.
        args: Positional arguments: nested tuples of `Ref`, `Named` and plain Python constants.
        kwargs: Keyword arguments in the same form, by name.
        outputs: What it produces; None for an output that does not exist (an unwanted gradient, say).
        phase: ``forward`` or ``backward``.
        fqn: Name of the parameter, buffer, input or output; for a gradient the name of what it is the gradient of.
        path: Module that ran it, e.g. ``"layers.3.attention"``; of a backward node, that of its forward.
        role: ``""``, or what else is known: of an output ``output``, ``gradient``, ``input-gradient`` or ``mutation``;
            of an op ``parameter-cast`` or ``gradient-cast`` (mixed precision).
        local_map: Declared placements, of the two region operations only.
        hint: Placements asked for in model code by `hint`, of output 0.
        inputs: The refs among args and kwargs, in order: what edges lead to it.
        recompute: Whether activation checkpointing wants it computed again in the backward pass.
        batch_dims: For each output the dimensions whose size follows the batch size (dynamic batch only).
    """

    index: int
    name: str
    kind: str
    op: str = ""
    args: tuple[Any, ...] = ()
    kwargs: tuple[tuple[str, Any], ...] = ()
    outputs: tuple[TensorMeta | None, ...] = ()
    phase: str = "forward"
    fqn: str = ""
    path: str = ""
    role: str = ""
    local_map: LocalMap | None = None
    hint: Placements | None = None
    inputs: tuple[Ref, ...] = ()
    batch_dims: tuple[tuple[int, ...], ...] = ()
    recompute: bool = field(default=False, compare=False, repr=False)


@dataclass(frozen=True)
class OpGraph:
    """A training step: forward, and backward from the tangents of the outputs to the gradients.

    Attributes:
        nodes: All nodes in topological order; ``nodes[i].index == i``.
        inputs: Nodes of the tensor inputs, in the order of the flattened inputs.
        outputs: Nodes (kind ``output``) of the tensor outputs, in order.
        parameters: Node of each parameter by name; tied names share a node.
        buffers: Likewise for buffers.
        gradients: Producer of each parameter's gradient; parameters without one are absent.
        gradient_nodes: The ``output`` node of each gradient.
        input_grads: Producer of the gradient of an input, by the input's node.
        tangents: Node of the tangent of an output, by the output's node; absent where nothing is differentiable.
        mutations: Producer of the new value of a buffer that the step changes, by name.
        batch: The batch size the sizes are for, or 0 when the graph was traced for its sizes only.
        fx: The traced torch graph and its descriptors, for running a plan; None for a graph from data.
        fx_names: For nodes that are nodes of the torch graph, their names there.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    parameters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    buffers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    gradients: Mapping[str, Ref] = field(default_factory=lambda: MappingProxyType({}))
    gradient_nodes: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    input_grads: Mapping[int, Ref] = field(default_factory=lambda: MappingProxyType({}))
    tangents: Mapping[int, int] = field(default_factory=lambda: MappingProxyType({}))
    mutations: Mapping[str, Ref] = field(default_factory=lambda: MappingProxyType({}))
    batch: int = 0
    fx: Any = field(default=None, compare=False, repr=False)
    fx_names: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)

    def edges(self) -> Iterator[Edge]:
        """Every edge, by consumer and then by position; a producer used twice by one consumer gives two."""
        for node in self.nodes:
            for position, (producer, output) in enumerate(node.inputs):
                yield Edge(producer, output, node.index, position)

    @cached_property
    def users(self) -> tuple[tuple[Edge, ...], ...]:
        """The edges that leave each node."""
        found: list[list[Edge]] = [[] for _ in self.nodes]
        for edge in self.edges():
            found[edge.producer].append(edge)
        return tuple(tuple(edges) for edges in found)

    def is_shared(self, node: int, output: int) -> bool:
        """Whether a tensor has several users that may want it elsewhere, so that a copy is made for all of them.

        A parameter that is cast before use has one.
        """
        users = [edge for edge in self.users[node] if edge.output == output]
        return len(users) > 1 and not any(self.nodes[edge.consumer].role == "parameter-cast" for edge in users)

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return MappingProxyType({node.name: node for node in self.nodes})

    @cached_property
    def key(self) -> str:
        """A digest of everything the search sees; equal graphs have equal keys in every process."""
        digest = hashlib.sha256(b"berthage-torch graph 1\n")
        for node in self.nodes:
            digest.update(repr(node).encode())
            digest.update(b"\n")
        for part in (self.inputs, self.outputs, self.parameters, self.buffers, self.gradients, self.tangents):
            digest.update(repr(dict(part) if isinstance(part, Mapping) else part).encode())
            digest.update(b"\n")
        return digest.hexdigest()


def names_node(node: Node, pattern: str) -> bool:
    """Whether a node's name, or the name of its parameter, input or output, is this or fits this."""
    names = [name for name in (node.name, node.fqn) if name]
    return pattern in names or any(fnmatch.fnmatchcase(name, pattern) for name in names)


def iterate_refs(value: object) -> Iterator[Ref]:
    """The refs in a nested argument, in order."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple) and not isinstance(value, Named):
        for item in value:
            yield from iterate_refs(item)


def with_inputs(node: Node) -> Node:
    """``node`` with `Node.inputs` made from its arguments."""
    found = list(iterate_refs(node.args))
    for _, value in node.kwargs:
        found.extend(iterate_refs(value))
    return dataclasses.replace(node, inputs=tuple(found))


def resolve_placements(declared: Placements, axes: tuple[str, ...]) -> tuple[int, ...]:
    """One placement code a mesh dimension.

    Args:
        declared: As in the model code. Axes that ``(axis name, code)`` pairs leave out are replicated; names the mesh
            does not have are passed over, so one model serves meshes with and without, say, an ``ep`` axis.
        axes: The mesh's dimension names.

    Raises:
        ValueError: A positional declaration has another number of dimensions than the mesh.
    """
    if not declared:  # an empty mapping names no axis
        return (REPLICATE,) * len(axes)
    if isinstance(declared[0], tuple):
        named: dict[str, int] = dict(declared)
        return tuple(named.get(axis, REPLICATE) for axis in axes)
    if len(declared) != len(axes):
        raise ValueError(
            f"placements {declared} are for a mesh of {len(declared)} dimensions, this one has {len(axes)} "
            f"({', '.join(axes)}): declare them by axis name, {{'{axes[0] if axes else 'dp'}': 'S(0)', ...}}"
        )
    return tuple(int(code) for code in declared)
