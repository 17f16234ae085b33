"""Demands put into a problem under construction, each a named constraint of it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from berthage import InvalidProblemError, ProblemBuilder
from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch.graph import Node, OpGraph, names_node, resolve_placements
from berthage_torch.pricing.strategies import Int8, Strategies

from .constraints import PARAMETER_MEMORY, Constraints, Wanted
from .sizes import local_bytes

__all__ = ["apply_constraints"]


def placement_of(wanted: Wanted, mesh: Mesh, what: str) -> Int8:
    """Placement codes, ``int8[D]``, of what a person wrote.

    Raises:
        InvalidProblemError: It cannot be read, or is for another number of mesh dimensions.
    """
    text = wanted if isinstance(wanted, str) else "".join(wanted)
    try:
        found = codes.parse(text)
    except ValueError as error:
        raise InvalidProblemError(f"{what}: {error}") from None
    if len(found) != len(mesh.sizes):
        raise InvalidProblemError(
            f"{what}: {text!r} places {len(found)} mesh dimensions, the mesh has {len(mesh.sizes)}: "
            f"{', '.join(mesh.names)}"
        )
    alone = np.array([size == 1 for size in mesh.sizes])
    return np.where(alone, codes.REPLICATE, found).astype(np.int8)


class _Applier:
    """Adds constraints to a problem under construction."""

    def __init__(
        self,
        builder: ProblemBuilder,
        graph: OpGraph,
        mesh: Mesh,
        strategies: list[Strategies],
        variable: npt.NDArray[np.int64],
    ) -> None:
        self.builder, self.graph, self.mesh = builder, graph, mesh
        self.strategies, self.variable = strategies, variable
        self.allowed: dict[int, npt.NDArray[np.bool_]] = {}

    def demand(self, node: Node, side: str, wanted: Wanted, name: str) -> None:
        """Allow only the labels of a node that place its first output or argument as wanted."""
        space = self.strategies[node.index]
        placed: Int8 = (space.inputs if side == "inputs" else space.outputs)[:, 0]
        allowed = (placed == placement_of(wanted, self.mesh, name)).all(axis=1)
        if not allowed.any():
            some = ", ".join(sorted({codes.format(row) for row in placed.tolist()})[:12])
            raise InvalidProblemError(f"{name}: {node.name!r} cannot be placed {wanted!r}; it can be {some}")
        v = int(self.variable[node.index])
        self.builder.allow(v, np.flatnonzero(allowed).tolist(), name=name)
        self.allowed[v] = self.allowed.get(v, np.ones(len(allowed), dtype=np.bool_)) & allowed

    def same(self, a: Node, side_a: str, b: Node, side_b: str, name: str) -> None:
        """Make two tensors have the same placement."""
        u, v = int(self.variable[a.index]), int(self.variable[b.index])
        first: Int8 = getattr(self.strategies[a.index], side_a)[:, 0]
        second: Int8 = getattr(self.strategies[b.index], side_b)[:, 0]
        agree = (first[:, None] == second[None]).all(axis=2)
        if u == v:
            self.builder.allow(v, np.flatnonzero(np.diagonal(agree)).tolist(), name=name)
        else:
            self.builder.allow_pairs(u, v, agree, name=name)


def matching(patterns: Mapping[str, Wanted], nodes: list[Node], kind: str) -> list[tuple[Node, str, Wanted]]:
    """The nodes that patterns name, each with the pattern.

    Raises:
        InvalidProblemError: A pattern that names nothing.
    """
    found = []
    for pattern, wanted in patterns.items():
        hits = [node for node in nodes if names_node(node, pattern)]
        if not hits:
            known = ", ".join(node.fqn or node.name for node in nodes[:8])
            raise InvalidProblemError(
                f"no {kind} is named {pattern!r}; there are {known}{', …' if len(nodes) > 8 else ''}"
            )
        found += [(node, pattern, wanted) for node in hits]
    return found


def apply_constraints(
    constraints: Constraints,
    builder: ProblemBuilder,
    graph: OpGraph,
    mesh: Mesh,
    strategies: list[Strategies],
    variable: npt.NDArray[np.int64],
) -> None:
    """Add the constraints of a training step and those of a person.

    A gradient is placed as its parameter or input, a tangent as its output, a buffer's new value as the buffer, what
    model code gave a `hint` as that says.

    Args:
        constraints: The person's.
        builder: The problem under construction.
        graph: The graph.
        mesh: The mesh.
        strategies: The strategies of each node.
        variable: ``int64[nodes]``, the variable of each node.
    """
    applier = _Applier(builder, graph, mesh, strategies, variable)
    nodes = graph.nodes
    done: set[tuple[str, int, int]] = set()

    def once(kind: str, a: int, side_a: str, b: int, side_b: str, name: str) -> None:
        key = (kind, int(variable[a]), int(variable[b]))
        if key not in done:
            done.add(key)
            applier.same(nodes[a], side_a, nodes[b], side_b, name)

    for fqn, gradient in graph.gradient_nodes.items():
        once("gradient", graph.parameters[fqn], "outputs", gradient, "inputs", f"gradient of {fqn} placed like it")
    given = {nodes[i].fqn: i for i in graph.inputs}
    for node in nodes:
        if node.role == "input-gradient" and node.fqn in given:
            once("input", given[node.fqn], "outputs", node.index, "inputs", f"gradient of {node.fqn} placed like it")
        elif node.role == "mutation" and node.fqn in graph.buffers:
            name = f"new value of {node.fqn} placed like it"
            once("buffer", graph.buffers[node.fqn], "outputs", node.index, "inputs", name)
    for output, tangent in graph.tangents.items():
        name = f"tangent of {nodes[output].fqn or nodes[output].name} placed like it"
        once("tangent", output, "inputs", tangent, "outputs", name)
    inputs = [nodes[i] for i in graph.inputs]
    outputs = [nodes[i] for i in graph.outputs]
    demands = [
        (node, "outputs", wanted, f"input {node.name}")
        for node, _, wanted in matching(constraints.inputs, inputs, "input")
    ]
    demands += [
        (node, "inputs", wanted, f"output {node.name}")
        for node, _, wanted in matching(constraints.outputs, outputs, "output")
    ]
    placed = [node for node in nodes if node.outputs and node.outputs[0] is not None]
    demands += [
        (node, "outputs", wanted, f"pin {node.name}")
        for node, _, wanted in matching(constraints.pins, placed, "node or parameter")
    ]
    if constraints.hints:
        demands += [
            (node, "outputs", _hinted(node, mesh), f"hint {node.name}") for node in nodes if node.hint is not None
        ]
    taken: set[tuple[int, str, str]] = set()
    for node, side, wanted, name in demands:
        kind, _, _ = name.partition(" ")
        key = (int(variable[node.index]), kind, str(wanted))
        if key not in taken:  # copies of a layer share their variable: once is enough
            taken.add(key)
            applier.demand(node, side, wanted, name)
    if constraints.parameter_memory is not None:
        _parameter_memory(constraints.parameter_memory, applier)


def _hinted(node: Node, mesh: Mesh) -> str:
    """What model code asks for."""
    assert node.hint is not None  # by the caller
    try:
        return codes.format(resolve_placements(node.hint, mesh.names))
    except ValueError as error:
        raise InvalidProblemError(f"hint {node.name}: {error}") from None


def _parameter_memory(demand: str | tuple[float, float], applier: _Applier) -> None:
    graph, mesh = applier.graph, applier.mesh
    weights: dict[int, npt.NDArray[np.int64]] = {}
    whole = 0
    for index in dict.fromkeys(graph.parameters.values()):
        meta = graph.nodes[index].outputs[0]
        assert meta is not None  # a parameter has a value
        v = int(applier.variable[index])
        used = local_bytes(meta, applier.strategies[index].outputs[:, 0], mesh)
        weights[v] = weights.get(v, np.zeros(len(used), dtype=np.int64)) + used
        whole += meta.nbytes
    if not weights:
        return
    low = 0
    if isinstance(demand, tuple):
        unit = whole if demand[1] <= 1.0 else 1  # a share of all parameters, or bytes
        low, high = int(demand[0] * unit), int(demand[1] * unit)
    elif demand == "least":
        high = sum(_least(used, applier.allowed.get(v)) for v, used in weights.items())
    else:
        raise InvalidProblemError(f"parameter memory is 'least' or (low, high), not {demand!r}")
    rows: dict[int | str, npt.ArrayLike] = dict(weights.items())
    applier.builder.add_budget(PARAMETER_MEMORY, rows, lower=low if low > 0 else -np.inf, upper=high)


def _least(used: npt.NDArray[np.int64], allowed: npt.NDArray[np.bool_] | None) -> int:
    return int((used if allowed is None else used[allowed]).min())
