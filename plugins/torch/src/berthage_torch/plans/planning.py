"""From an assignment of the problem to a plan of the whole graph, copies of layers and moves included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from berthage import Evaluation, SolveResult
from berthage_nccl import CostModel, Move
from berthage_nccl import placements as codes
from berthage_torch.graph import Node, TensorMeta
from berthage_torch.pricing.pricer import is_contiguous
from berthage_torch.pricing.strategies import Int8, Strategies
from berthage_torch.searching.building import BuiltProblem

from .placed import COLLECTIVES, PlannedEdge, PlannedNode, Step
from .plan import Plan
from .settings import Settings, inputs_of, parameters_of

__all__ = ["make_plan", "plan_at"]


def make_plan(
    built: BuiltProblem,
    result: SolveResult,
    *,
    model: str,
    cost_model: CostModel,
    settings: Settings | None = None,
) -> Plan:
    """The plan that an assignment stands for.

    Every node and every real edge is priced again from the placements alone, so the sum is an independent check of
    the problem that was solved.

    Args:
        built: The problem and what its variables stand for.
        result: A result with an assignment.
        model: Name of the model.
        cost_model: The cost model the problem was built with.
        settings: What the search was asked.

    Raises:
        SolutionUnavailableError: The result has no assignment.
    """
    x = result.require()
    evaluation = result.evaluation
    assert evaluation is not None  # there is an assignment
    return plan_at(
        built,
        x,
        evaluation,
        model=model,
        cost_model=cost_model,
        solver=result.solver,
        termination=result.termination.reason.value,
        bound=float(result.bound),
        settings=replace(settings or Settings(), solver_version=result.solver_version),
    )


def plan_at(
    built: BuiltProblem,
    x: npt.NDArray[np.int32],
    evaluation: Evaluation,
    *,
    model: str,
    cost_model: CostModel,
    solver: str,
    termination: str,
    bound: float,
    settings: Settings,
) -> Plan:
    """The plan that an assignment ``int32[n]``, already evaluated, stands for; see `make_plan`."""
    graph, mesh = built.graph, built.pricer.mesh
    labels = x[built.variable]
    nodes = [
        _node(built, node, space, label)
        for node, space, label in zip(graph.nodes, built.strategies, labels.tolist(), strict=True)
    ]
    mover = _Mover(built, cost_model)
    edges = []
    shared: set[tuple[int, int]] = set()
    for edge in graph.edges():
        producer, consumer = graph.nodes[edge.producer], graph.nodes[edge.consumer]
        meta = producer.outputs[edge.output]
        assert meta is not None  # a graph has no edge from an output that does not exist
        before: Int8 = built.strategies[edge.producer].outputs[labels[edge.producer], edge.output]
        after: Int8 = built.strategies[edge.consumer].inputs[labels[edge.consumer], edge.position]
        alias = built.through(edge)
        if alias is not None:
            held: Int8 = alias.placements[x[alias.variable]]
            if (edge.producer, edge.output) not in shared:
                shared.add((edge.producer, edge.output))
                edges.append(mover.edge(producer.name, edge.output, "", -1, meta, before, held))
            before = held
        edges.append(mover.edge(producer.name, edge.output, consumer.name, edge.position, meta, before, after))
    return Plan(
        model=model,
        mesh=dict(zip(mesh.names, mesh.sizes, strict=True)),
        cost_model=(cost_model.name, cost_model.key),
        solver=solver,
        termination=termination,
        objective=float(evaluation.objective),
        bound=bound,
        nodes=tuple(nodes),
        edges=tuple(edges),
        graph_key=graph.key,
        penalty_us=float(sum(evaluation.penalties.values())),
        settings=replace(settings, inputs=inputs_of(graph), parameters=parameters_of(graph)),
    )


def _node(built: BuiltProblem, node: Node, space: Strategies, label: int) -> PlannedNode:
    return PlannedNode(
        name=node.name,
        op=node.op or node.kind,
        phase=node.phase,
        path=node.path,
        fqn=node.fqn,
        inputs=tuple(codes.format(row) for row in space.inputs[label].tolist()),
        outputs=tuple(codes.format(row) for row in space.outputs[label].tolist()),
        compute_us=float(built.pricer.compute(space)[label]),
        group=built.graph.nodes[built.groups[node.index]].name,
    )


class _Mover:
    """Prices moves of single tensors; equal questions are asked once."""

    def __init__(self, built: BuiltProblem, cost_model: CostModel) -> None:
        self._mesh = built.pricer.mesh
        self._cost_model = cost_model
        self._fabrics = cost_model.fabric(built.pricer.mesh)
        self._pricer = built.pricer
        self._known: dict[tuple[TensorMeta, bytes, bytes], tuple[float, tuple[Step, ...]]] = {}

    def edge(
        self, producer: str, output: int, consumer: str, position: int, meta: TensorMeta, before: Int8, after: Int8
    ) -> PlannedEdge:
        us, path = self._move(meta, before, after)
        ends = (codes.format(before.tolist()), codes.format(after.tolist()))
        return PlannedEdge(producer, output, consumer, position, *ends, us, path)

    def _move(
        self, meta: TensorMeta, before: npt.NDArray[np.int8], after: npt.NDArray[np.int8]
    ) -> tuple[float, tuple[Step, ...]]:
        if (before == after).all():
            return 0.0, ()
        key = (meta, before.tobytes(), after.tobytes())
        if key not in self._known:
            us = float(self._pricer.redistribution(meta, before[None], after[None])[0, 0])
            moves = self._cost_model.path(
                self._mesh, meta.shape, meta.itemsize, before, after, contiguous=is_contiguous(meta)
            )
            self._known[key] = (us, tuple(map(self._step, moves)))
        return self._known[key]

    def _step(self, move: Move) -> Step:
        algorithm = ""
        if move.kind in COLLECTIVES:
            choice = self._cost_model.explain_collective(move.kind, move.bytes, self._fabrics[move.mesh_dim])
            algorithm = f"{choice.algorithm}/{choice.protocol}" if choice.protocol else choice.algorithm
        dim, after = self._mesh.names[move.mesh_dim], codes.format(move.after)
        return Step(move.kind, dim, after, int(move.bytes), move.us, algorithm)
