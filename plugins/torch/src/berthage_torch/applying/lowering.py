"""From a plan and the graph it is for to what one rank runs: local operations, and the collectives that were priced."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from berthage_nccl import Mesh
from berthage_nccl import placements as codes
from berthage_torch.errors import ApplyError
from berthage_torch.graph import Node, OpGraph, Ref, TensorMeta
from berthage_torch.plans.placed import PlannedEdge
from berthage_torch.plans.plan import Plan
from berthage_torch.pricing.rules import torch_op
from berthage_torch.pricing.strategies import StrategySpace

from .extents import Place, Shape
from .operations import Operation, write_operation
from .regions import RegionWriter
from .steps import COLLECTIVE, Mover
from .writing import AGAIN, Half, Writer, split

__all__ = ["LocalTensor", "Lowered", "lower"]

Codes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """A tensor of the step as one rank has it.

    Attributes:
        name: Of the parameter, buffer, input or output.
        shape: Sizes of the rank's part.
        whole: Sizes of all of it.
        dtype: Name of the dtype.
        placement: Where it lies.
    """

    name: str
    shape: Shape
    whole: Shape
    dtype: str
    placement: Codes


@dataclass(frozen=True)
class Lowered:
    """A step as one rank runs it.

    Attributes:
        forward: Takes parameters, buffers and inputs; returns outputs, new values of buffers, and what backward needs.
        backward: Takes that, and the gradients of the outputs; returns the gradients of parameters and inputs.
        inference: As ``forward``, without what backward needs.
        parameters: In the order in which ``forward`` takes them.
        buffers: Likewise.
        inputs: Likewise.
        outputs: In the order in which ``forward`` returns them.
        tangents: For each tangent that ``backward`` takes the output it belongs to.
        mutated: Names of the buffers whose new values ``forward`` returns.
        gradients: For each tensor that ``forward`` takes whether ``backward`` returns its gradient.
    """

    forward: Half
    backward: Half
    inference: Half
    parameters: tuple[LocalTensor, ...]
    buffers: tuple[LocalTensor, ...]
    inputs: tuple[LocalTensor, ...]
    outputs: tuple[LocalTensor, ...]
    tangents: tuple[int, ...]
    mutated: tuple[str, ...]
    gradients: tuple[bool, ...]

    def collectives(self) -> Counter[tuple[str, str, str, int]]:
        """What runs: kind, mesh dimension, phase and bytes (the larger side), counted.

        Bytes are those of this rank: of the largest shards on the first rank of every mesh dimension.
        """
        found: Counter[tuple[str, str, str, int]] = Counter()
        for phase, half in (("forward", self.forward), ("backward", self.backward)):
            for node in half.module.graph.nodes:
                if COLLECTIVE in node.meta:
                    kind, dim, size = node.meta[COLLECTIVE]
                    found[kind, dim, phase, size] += 1
        return found


def lower(plan: Plan, graph: OpGraph, place: Place, groups: Sequence[str], device: torch.device) -> Lowered:
    """Lower a plan for one rank.

    Args:
        plan: The plan; its nodes are those of the graph.
        graph: The traced step, at the sizes that will be run.
        place: The rank.
        groups: Name of its process group on each mesh dimension.
        device: The device that runs it.

    Raises:
        ApplyError: A placement does not hold for these sizes, or an operation cannot run on shards.
    """
    return _Lowering(plan, graph, place, groups, device).run()


class _Lowering:
    def __init__(self, plan: Plan, graph: OpGraph, place: Place, groups: Sequence[str], device: torch.device) -> None:
        self.graph, self.place, self.device = graph, place, device
        self.names = tuple(plan.mesh)
        self.space = StrategySpace(Mesh(self.names, tuple(plan.mesh.values())))
        self.write = Writer()
        self.mover = Mover(self.write, place, self.names, tuple(groups))
        self.planned = [(_rows(node.inputs), _rows(node.outputs)) for node in plan.nodes]
        self.edges = {(e.producer, e.output, e.consumer, e.position): e for e in plan.edges}
        self.values: dict[Ref, fx.Node] = {}
        self.shared: dict[Ref, fx.Node] = {}
        self.results: dict[int, fx.Node] = {}
        self.regions: dict[int, RegionWriter] = {}
        self.constants = torch.nn.Module()

    def run(self) -> Lowered:
        graph = self.graph
        taken = [*dict.fromkeys(graph.parameters.values()), *dict.fromkeys(graph.buffers.values()), *graph.inputs]
        for index in taken:
            self.values[Ref(index, 0)] = self.write.given(f"given_{index}")
        for node in graph.nodes:
            label = self._label(node)
            if node.kind not in ("parameter", "buffer", "input"):
                self._node(node, label)
        outputs = list(graph.outputs)
        mutated = [node for node in graph.nodes if node.kind == "output" and node.role == "mutation"]
        tangents = [(k, graph.tangents[output]) for k, output in enumerate(outputs) if output in graph.tangents]
        gradients = {graph.parameters[fqn]: index for fqn, index in graph.gradient_nodes.items()}
        for node in graph.nodes:
            if node.role == "input-gradient":
                gradients[next(i for i in graph.inputs if graph.nodes[i].fqn == node.fqn)] = node.index
        results = [self.results[index] for index in outputs] + [self.results[node.index] for node in mutated]
        back = [self.results[gradients[index]] if index in gradients else None for index in taken]
        forward, backward = split(self.write.graph, self.constants, list(results), back)
        inference, _ = split(self.write.graph, self.constants, list(results), [])
        many, buffers = len(set(graph.parameters.values())), len(set(graph.buffers.values()))
        held = [self._local(index) for index in taken]
        return Lowered(
            forward,
            backward,
            inference,
            tuple(held[:many]),
            tuple(held[many : many + buffers]),
            tuple(held[many + buffers :]),
            tuple(self._local(index) for index in outputs),
            tuple(k for k, _ in tangents),
            tuple(node.fqn for node in mutated),
            tuple(one is not None for one in back),
        )

    # -- nodes ------------------------------------------------------------------------------------

    def _label(self, node: Node) -> int:
        """The strategy that the plan chose.

        Raises:
            ApplyError: There is none with these placements at these sizes.
        """
        space = self.space.of(self.graph, node)
        inputs, outputs = self.planned[node.index]
        label = space.find(inputs, outputs)
        if label < 0:
            metas = [*(self._meta(ref) for ref in node.inputs), *(meta for meta in node.outputs if meta is not None)]
            shapes = ", ".join(str(list(meta.shape)) for meta in metas)
            sides = " -> ".join(", ".join(map(codes.format, side)) for side in (inputs, outputs) if side)
            raise ApplyError(
                f"{node.name}: {sides} does not hold for {node.op or node.kind} on tensors of sizes {shapes}: "
                "shards would be empty, or uneven where they must be even; search a plan for these sizes"
            )
        return label

    def _node(self, node: Node, label: int) -> None:
        write = self.write
        write.phase = node.phase
        if node.kind == "tangent":
            self.values[Ref(node.index, 0)] = write.given(f"given_{node.index}")
        elif node.kind == "constant":
            self._constant(node)
        elif node.kind == "output":
            self.results[node.index] = self._argument(node, 0)
        elif node.op == "berthage.local_map":
            self._region(node)
        elif node.op == "berthage.local_map_backward":
            self._region_backward(node)
        else:
            self._operation(node, label)

    def _operation(self, node: Node, label: int) -> None:
        inputs, outputs = self.planned[node.index]
        metas = tuple(self._meta(ref) for ref in node.inputs)
        space = self.space.of(self.graph, node)
        masked = bool(space.one_dim.masked[space.index[label]].any())
        tensors = [self._argument(node, position) for position in range(len(node.inputs))]
        operation = Operation(node, metas, inputs, outputs, masked, self.device)
        self._mark(node)
        result = write_operation(self.write, self.place, operation, tensors)
        self._keep(node, result)
        self.write.about = {}

    def _mark(self, node: Node) -> None:
        """Say of what is written next that the backward pass computes it again; never of what draws at random."""
        op = torch_op(node.op)
        if node.recompute and not (op is not None and torch.Tag.nondeterministic_seeded in op.tags):
            self.write.about = {AGAIN: True}

    def _keep(self, node: Node, result: fx.Node) -> None:
        op = torch_op(node.op)
        returns: list[Any] = list(op._schema.returns) if op is not None else []
        if len(returns) == 1 and str(returns[0].type) == "Tensor":
            self.values[Ref(node.index, 0)] = result
            return
        for output in sorted({edge.output for edge in self.graph.users[node.index]}):
            self.values[Ref(node.index, output)] = self.write.call(operator.getitem, result, output)

    def _constant(self, node: Node) -> None:
        whole = getattr(self.graph.fx.joint.graph_module, node.fqn)
        extents = self.place.extents(tuple(whole.shape), self.planned[node.index][1][0])
        for d, (start, length) in enumerate(extents):
            whole = whole.narrow(d, start, length)
        name = f"constant_{node.index}"
        self.constants.register_buffer(name, whole.detach().to(self.device).contiguous(), persistent=False)
        self.values[Ref(node.index, 0)] = self.write.constant(name)

    def _region(self, node: Node) -> None:
        region = node.local_map
        assert region is not None  # by its operation
        inputs, outputs = self.planned[node.index]
        pair = self.graph.nodes[region.pair] if region.pair >= 0 else None
        metas = [self._meta(ref) for ref in node.inputs]
        writer = RegionWriter(self.write, self.place, node, pair, metas, inputs, outputs, self.device)
        self.regions[node.index] = writer
        tensors = [self._argument(node, position) for position in range(len(node.inputs))]
        self._mark(node)
        results = writer.forward(tensors)
        self.write.about = {}
        for output, value in enumerate(results):
            if value is not None:
                self.values[Ref(node.index, output)] = value

    def _region_backward(self, node: Node) -> None:
        region = node.local_map
        assert region is not None  # by its operation
        given = sum(one is not None for one in region.inputs)
        tensors = [self._argument(node, position) for position in range(given)]
        for output, value in enumerate(self.regions[region.pair].backward(tensors)):
            if value is not None:
                self.values[Ref(node.index, output)] = value

    # -- moves ------------------------------------------------------------------------------------

    def _argument(self, node: Node, position: int) -> fx.Node:
        """A tensor argument of a node, where the plan wants it."""
        ref = node.inputs[position]
        producer = self.graph.nodes[ref.node].name
        shared = self.edges.get((producer, ref.output, "", -1))
        if shared is None:
            tensor = self.values[ref]
        else:
            if ref not in self.shared:
                self.write.phase = self._first_phase(ref)
                self.shared[ref] = self._moved(self.values[ref], ref, shared)
                self.write.phase = node.phase
            tensor = self.shared[ref]
        return self._moved(tensor, ref, self.edges[producer, ref.output, node.name, position])

    def _first_phase(self, ref: Ref) -> str:
        """When the first user of a tensor runs."""
        users = (self.graph.nodes[e.consumer] for e in self.graph.users[ref.node] if e.output == ref.output)
        return "forward" if any(user.phase == "forward" for user in users) else "backward"

    def _moved(self, tensor: fx.Node, ref: Ref, edge: PlannedEdge) -> fx.Node:
        meta = self._meta(ref)
        now = _row(edge.before)
        for step in edge.path:
            after = _row(step.after)
            tensor = self.mover.step(tensor, meta.shape, meta.dtype, self.names.index(step.dim), now, after)
            now = after
        return tensor

    def _meta(self, ref: Ref) -> TensorMeta:
        meta = self.graph.nodes[ref.node].outputs[ref.output]
        assert meta is not None  # a graph has no edge from an output that does not exist
        return meta

    def _local(self, index: int) -> LocalTensor:
        node = self.graph.nodes[index]
        meta, row = node.outputs[0], self.planned[index][1][0]
        assert meta is not None  # parameters, inputs and outputs are tensors
        return LocalTensor(node.fqn, self.place.shape(meta.shape, row), meta.shape, meta.dtype, row)


def _rows(placements: Sequence[str]) -> tuple[Codes, ...]:
    return tuple(_row(text) for text in placements)


def _row(text: str) -> Codes:
    return tuple(int(code) for code in codes.parse(text))
