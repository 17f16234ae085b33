"""What is in memory when: which tensors a step holds, from which operation to which, as its graph alone tells.

An instant is the index of a node. A tensor is held from the operation that makes it until the last that reads it, or
reads a view of it. One that is moved is held in both forms while the move goes on and from then on in the new one; a
shared copy is made for the first of its users, what goes out of the step as soon as it is there. Parameters, buffers,
inputs and what goes out belong to the caller and are held to the end, parameters, buffers and inputs from the start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from berthage_torch.graph import Edge, Node, OpGraph
from berthage_torch.pricing.work import is_free

__all__ = ["KINDS", "Holding", "Holdings"]

KINDS = ("parameters", "optimizer", "gradients", "inputs", "buffers", "outputs", "activations", "copies")
_GIVEN = {"parameter": "parameters", "buffer": "buffers", "constant": "buffers", "input": "inputs"}
_RESULTS = {"gradient": "gradients", "mutation": "buffers"}


@dataclass(frozen=True, slots=True)
class Holding:
    """Something held over a half-open interval of instants.

    Attributes:
        kind: One of `KINDS`.
        tensor: Which output of which node.
        start: First instant.
        stop: First instant after it.
        edge: Where along an edge it lies as the consumer wants it; None for where it was produced or is shared.
        shared: Whether it is, or along an edge comes from, a copy shared among several users.
        moved: Whether it is there only if it had to be moved.
    """

    kind: str
    tensor: tuple[int, int]
    start: int
    stop: int
    edge: Edge | None = None
    shared: bool = False
    moved: bool = False


class Holdings:
    """The holdings of a graph.

    Args:
        graph: The graph.

    Attributes:
        end: The number of instants.
    """

    def __init__(self, graph: OpGraph) -> None:
        self._graph = graph
        self.end = len(graph.nodes)
        self._kept = [[0] * len(node.outputs) for node in graph.nodes]
        self._covered = [[False] * len(node.outputs) for node in graph.nodes]
        for node in graph.nodes:
            self._covered[node.index] = [self._is_covered(node, output) for output in range(len(node.outputs))]
        for node in reversed(graph.nodes):
            self._kept[node.index] = [self._last(node, output) for output in range(len(node.outputs))]

    @cached_property
    def _users(self) -> dict[tuple[int, int], list[Edge]]:
        found: dict[tuple[int, int], list[Edge]] = {}
        for edge in self._graph.edges():
            found.setdefault((edge.producer, edge.output), []).append(edge)
        return found

    def __iter__(self) -> Iterator[Holding]:
        """All holdings that are not empty, those of a node's outputs and then of their users, in order."""
        for node in self._graph.nodes:
            for output, meta in enumerate(node.outputs):
                if meta is not None:
                    yield from (held for held in self._of(node, output) if held.stop > held.start)

    def _of(self, node: Node, output: int) -> Iterator[Holding]:
        tensor = (node.index, output)
        users = self._users.get(tensor, [])
        covered = self._covered[node.index][output]
        kind = next((self._result(edge) for edge in users if self._leaves(edge)), "activations")
        if node.kind in _GIVEN:
            yield Holding(_GIVEN[node.kind], tensor, 0, self.end)
        elif node.kind != "output" and not _is_view(node):  # what goes out is held as the edge that leads there
            yield Holding("activations", tensor, node.index, self._as_produced(node.index, output))
        if self._graph.is_shared(*tensor):
            first, last = min(map(self._use, users)), self._kept[node.index][output]
            yield Holding("copies", tensor, first, last if covered else first + 1, shared=True, moved=True)
            if not covered:
                yield Holding(kind, tensor, first + 1, last, shared=True)
            for edge in users:
                yield Holding(self._moved_as(edge), tensor, self._use(edge), self._long(edge), edge, True, True)
            return
        for edge in users:
            use, last = self._use(edge), self._long(edge)
            yield Holding(self._moved_as(edge), tensor, use, last if covered else use + 1, edge, moved=True)
            if not covered:
                yield Holding(kind, tensor, use + 1, self._after(edge), edge)

    def _leaves(self, edge: Edge) -> bool:
        return self._graph.nodes[edge.consumer].kind == "output"

    def _result(self, edge: Edge) -> str:
        return _RESULTS.get(self._graph.nodes[edge.consumer].role, "outputs")

    def _moved_as(self, edge: Edge) -> str:
        return self._result(edge) if self._leaves(edge) else "copies"

    def _use(self, edge: Edge) -> int:
        """When an edge's tensor is moved and read."""
        return edge.producer if self._leaves(edge) else edge.consumer

    def _is_covered(self, node: Node, output: int) -> bool:
        """Whether something else holds a tensor's memory as long as it is needed: the caller, or what it is a view of.

        A view that keeps the size of a tensor with no other user takes its memory over; any other only borrows.
        """
        if node.kind in _GIVEN:
            return True
        if not _is_view(node):
            return False
        base, which = node.inputs[0]
        whole, part = self._graph.nodes[base].outputs[which], node.outputs[output]
        if whole is None or part is None or whole.numel != part.numel:
            return True
        return self._covered[base][which] or self._graph.is_shared(base, which)

    def _last(self, node: Node, output: int) -> int:
        """First instant after the last that reads a tensor or, moved or not, a view of it."""
        users = self._users.get((node.index, output), [])
        return max((self._long(edge) for edge in users), default=node.index + 1)

    def _long(self, edge: Edge) -> int:
        """The same for what one user does with it."""
        consumer = self._graph.nodes[edge.consumer]
        if consumer.kind == "output":
            return self.end
        if _is_view(consumer):
            return max((edge.consumer + 1, *self._kept[edge.consumer]))
        return edge.consumer + 1

    def _as_produced(self, index: int, output: int) -> int:
        """First instant after the one at which a tensor is first read, and so moved if need be."""
        users = self._users.get((index, output), [])
        return min(map(self._use, users), default=index) + 1

    def _after(self, edge: Edge) -> int:
        """Until when the only user of a tensor holds it, in the placement that it wants."""
        consumer = self._graph.nodes[edge.consumer]
        if not _is_view(consumer):
            return self._long(edge)
        (covered, *_) = self._covered[edge.consumer]
        return self._long(edge) if covered else self._as_produced(edge.consumer, 0)


def _is_view(node: Node) -> bool:
    """Whether its outputs are views of its argument."""
    return node.kind == "op" and bool(node.inputs) and is_free(node)
