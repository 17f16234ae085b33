"""The order of the nodes: as traced, but every cast of a parameter or gradient stands beside its use."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable

from berthage_torch.graph import LocalMap, Node, Ref, with_inputs

from .regions import Loose, replace_refs

__all__ = ["arrange", "name_casts"]

_CAST = "aten._to_copy.default"
_FRONT = ("parameter", "buffer", "constant", "input")


def name_casts(nodes: list[Node], gradients: Iterable[Ref]) -> None:
    """Give the casts of mixed precision their roles, in place."""
    for node in nodes:
        if node.op == _CAST and node.phase == "forward" and not node.path:
            source = nodes[node.inputs[0].node]
            if source.kind == "parameter":
                path = source.fqn.rpartition(".")[0]
                nodes[node.index] = dataclasses.replace(node, role="parameter-cast", path=path)
    for ref in gradients:
        node = nodes[ref.node]
        while node.op == _CAST and node.phase == "backward" and not node.role:
            nodes[node.index] = dataclasses.replace(node, role="gradient-cast")
            node = nodes[node.inputs[0].node]


def arrange(loose: Loose) -> tuple[list[Node], dict[int, Ref | int], dict[str, str]]:
    """Number the nodes anew, in topological order.

    Parameters are cast when the trace starts and gradients when it ends, which would keep both forms of all of them
    alive at once; here the first is put off until the use, and the second done as soon as the gradient is there.
    Returns the nodes; for each old number the new one, or the output that stands for it; and the names in the torch
    graph of the nodes that are in it.
    """
    order = _Order(loose)
    present = [node for node in loose.nodes if node is not None]
    late = ("berthage.local_map", "berthage.local_map_backward")
    for node in present:
        if node.kind in _FRONT:
            order.emit(node.index)
    for node in present:
        if node.phase == "forward" and node.role != "parameter-cast" and node.op not in late:
            order.emit(node.index)
    for node in present:
        if node.phase == "forward":
            order.emit(node.index)
    for node in present:
        if node.kind == "tangent":
            order.emit(node.index)
    for node in present:
        if node.op not in late:
            order.emit(node.index)
    for node in present:
        order.emit(node.index)
    nodes, place = order.finished()
    return nodes, place, order.traced


class _Order:
    def __init__(self, loose: Loose) -> None:
        self.loose = loose
        self.place: dict[int, int] = {}
        self.done: list[Node] = []
        self.casts: dict[int, list[int]] = {}
        self.names: Counter[str] = Counter()
        self.traced: dict[str, str] = {}
        for node in loose.nodes:
            if node is not None and node.role == "gradient-cast":
                self.casts.setdefault(loose.resolve(node.inputs[0]).node, []).append(node.index)

    def emit(self, index: int) -> None:
        """Put out a node, after what it needs."""
        stack = [index]
        while stack:
            at = stack[-1]
            if at in self.place:
                stack.pop()
                continue
            node = self.loose.nodes[at]
            assert node is not None
            needs = [self.loose.resolve(ref).node for ref in node.inputs]
            missing = [need for need in needs if need not in self.place]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.place[at] = len(self.done)
            self.done.append(self._renumbered(node))
            stack.extend(self.casts.get(at, ()))

    def _renumbered(self, node: Node) -> Node:
        def new(ref: Ref) -> Ref:
            ref = self.loose.resolve(ref)
            return Ref(self.place[ref.node], ref.output)

        index = len(self.done)
        path = node.path
        if not path and node.phase == "backward" and node.inputs:
            path = self.done[new(node.inputs[-1]).node].path
        name = self._name(node, path)
        if node.name:
            self.traced[name] = node.name
        args = replace_refs(node.args, new)
        kwargs = tuple((key, replace_refs(value, new)) for key, value in node.kwargs)
        return with_inputs(dataclasses.replace(node, index=index, name=name, args=args, kwargs=kwargs, path=path))

    def _name(self, node: Node, path: str) -> str:
        """A name that does not depend on what else is in the graph: module, operation, and a count if need be."""
        if node.kind == "op":
            short = node.op.split(".")[1]
            if node.phase == "backward":
                short = f"backward.{short.removesuffix('_backward')}"
            name = f"{path}/{short}" if path else short
        else:
            name = node.fqn if node.kind in ("parameter", "buffer") else f"{node.kind}:{node.fqn}"
        self.names[name] += 1
        count = self.names[name]
        return name if count == 1 else f"{name}_{count - 1}"

    def finished(self) -> tuple[list[Node], dict[int, Ref | int]]:
        place: dict[int, Ref | int] = dict(self.place)
        for old in self.loose.instead:
            ref = self.loose.resolve(Ref(old, 0))
            place[old] = Ref(self.place[ref.node], ref.output)
        for i, node in enumerate(self.done):
            region = node.local_map
            if region is not None and region.pair >= 0:
                paired: LocalMap = dataclasses.replace(region, pair=self.place[region.pair])
                self.done[i] = dataclasses.replace(node, local_map=paired)
        return self.done, place
