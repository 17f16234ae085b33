"""Copies the operations of a layer's first call to where it was called again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from berthage_torch.graph import Node, Ref, with_inputs
from berthage_torch.marks import Recorder

from .regions import MARK, replace_refs
from .repeats import UnrepeatableError

__all__ = ["expand"]

_REPEAT = "berthage.repeat.default"
_BACKWARD = "berthage.repeat_backward.default"


@dataclass(frozen=True, slots=True)
class _Layer:
    """A template in the graph: its marks by what and position, and the operations between them."""

    path: str
    marks: dict[str, dict[int, int]]
    forward: list[int]
    backward: list[int]


def expand(
    nodes: list[Node], recorder: Recorder, results: Iterable[Ref]
) -> tuple[list[Node], Recorder, Callable[[Ref], Ref]]:
    """Replace calls by copies of the layers they stand for.

    Returns:
        The nodes; what was recorded, with the regions of the copies; and where an output of before is found now.

    Raises:
        UnrepeatableError: A layer does not copy.
    """
    if not recorder.templates:
        return nodes, recorder, lambda ref: ref
    work = _Expansion(nodes, recorder)
    live = work.live(results)
    for node in nodes:
        if node.kind != "op" or node.index in live:
            work.add(node)
    return work.done, work.recorder, work.where.__getitem__


class _Expansion:
    def __init__(self, nodes: list[Node], recorder: Recorder) -> None:
        self.nodes = nodes
        self.recorder = Recorder(list(recorder.regions), list(recorder.hints), list(recorder.tags))
        self.calls = recorder.calls
        self.done: list[Node] = []
        self.where: dict[Ref, Ref] = {}
        self.inside: dict[int, dict[Ref, Ref]] = {}
        self.regions: dict[tuple[int, int], int] = {}
        self.backwards = {node.args[2] for node in nodes if node.op == _BACKWARD}
        marks: dict[int, dict[str, dict[int, int]]] = {}
        for node in nodes:
            if node.op == MARK:
                what, which, position = recorder.tags[node.args[1]]
                if what.startswith("t-"):
                    marks.setdefault(which, {}).setdefault(what, {})[position] = node.index
        used = {template for template, _ in recorder.calls}
        self.layers = {t: self._layer(recorder.templates[t].path, marks.get(t, {})) for t in used}

    def _layer(self, path: str, marks: dict[str, dict[int, int]]) -> _Layer:
        for what in ("t-in", "t-out", "t-grad-in", "t-grad-out"):
            marks.setdefault(what, {})
        ins = set(marks["t-in"].values())
        backward = self._walk(marks["t-grad-in"].values(), set(marks["t-grad-out"].values()), forward=False)
        ends = [*backward, *marks["t-grad-in"].values()]
        kept = {r.node for i in ends for r in self.nodes[i].inputs if self.nodes[r.node].phase == "forward"} - ins
        forward = self._walk(marks["t-out"].values(), ins, forward=True, start=kept)
        return _Layer(path, marks, forward, backward)

    def _walk(self, ends: Iterable[int], stops: set[int], *, forward: bool, start: Iterable[int] = ()) -> list[int]:
        """What is computed from ``stops`` to ``ends``, in order."""
        found: set[int] = set()
        todo = [*start, *(ref.node for end in ends for ref in self.nodes[end].inputs)]
        while todo:
            index = todo.pop()
            node = self.nodes[index]
            if index in found or index in stops or node.kind == "constant":
                continue
            if not forward and node.phase == "forward":
                continue
            tag = self.recorder.tags[node.args[1]][0] if node.op == MARK else ""
            if node.kind != "op" or tag.startswith("t-") or node.op in (_REPEAT, _BACKWARD):
                raise UnrepeatableError(f"a layer uses {node.name} from outside")
            found.add(index)
            todo.extend(ref.node for ref in node.inputs)
        return sorted(found)

    def live(self, results: Iterable[Ref]) -> set[int]:
        """What results need; of a call only its arguments count, not what its results are like."""
        live: set[int] = set()
        todo = [ref.node for ref in results]
        while todo:
            index = todo.pop()
            if index not in live:
                live.add(index)
                node = self.nodes[index]
                refs = node.args[0] if node.op in (_REPEAT, _BACKWARD) else node.inputs
                todo.extend(ref.node for ref in refs)
        return live

    def add(self, node: Node) -> None:
        """Put out a node, or what it stands for."""
        if node.op == MARK and self.recorder.tags[node.args[1]][0].startswith("t-"):
            self.where[Ref(node.index, 0)] = self.where[node.args[0]]
        elif node.op == _REPEAT:
            self._repeat(node)
        elif node.op == _BACKWARD:
            self._repeat_backward(node)
        else:
            self._copy(node, self.where)

    def _copy(self, node: Node, where: dict[Ref, Ref], call: int = -1) -> None:
        index = len(self.done)
        args = replace_refs(node.args, where.__getitem__)
        kwargs = tuple((key, replace_refs(value, where.__getitem__)) for key, value in node.kwargs)
        path, name = node.path, node.name
        if call >= 0:
            template, to = self.calls[call]
            path = to + path.removeprefix(self.layers[template].path) if path else ""
            name = ""  # no node of the torch graph is this one
            if node.op == MARK:
                args = (args[0], self._tag(args[1], call))
        self.done.append(
            with_inputs(dataclasses.replace(node, index=index, name=name, path=path, args=args, kwargs=kwargs))
        )
        for output in range(len(node.outputs)):
            where[Ref(node.index, output)] = Ref(index, output)

    def _tag(self, tag: int, call: int) -> int:
        """The tag of a copied mark: a region in a copied layer is a region of its own."""
        what, which, position = self.recorder.tags[tag]
        if what not in ("hint", "pass"):
            if (call, which) not in self.regions:
                self.regions[(call, which)] = len(self.recorder.regions)
                self.recorder.regions.append(self.recorder.regions[which])
            which = self.regions[(call, which)]
        self.recorder.tags.append((what, which, position))
        return len(self.recorder.tags) - 1

    def _repeat(self, node: Node) -> None:
        tensors, _, call = node.args
        layer = self.layers[self.calls[call][0]]
        if layer.marks["t-grad-in"] and call not in self.backwards:
            raise UnrepeatableError("a layer has no backward where its first call has one")
        where = self.inside[call] = self._constants()
        for position, mark in layer.marks["t-in"].items():
            where[Ref(mark, 0)] = self.where[tensors[position]]
        for index in layer.forward:
            self._copy(self.nodes[index], where, call)
        for position, mark in layer.marks["t-out"].items():
            self._same(Ref(mark, 0), Ref(node.index, position))
            self.where[Ref(node.index, position)] = where[self.nodes[mark].args[0]]

    def _repeat_backward(self, node: Node) -> None:
        gradients, _, call, given, wanted = node.args
        layer = self.layers[self.calls[call][0]]
        outs, ins = layer.marks["t-grad-out"], layer.marks["t-grad-in"]
        if sorted(given) != sorted(outs) or sorted(wanted) != sorted(ins):
            raise UnrepeatableError("a layer has other gradients than its first call")
        where = self.inside[call]
        for position, gradient in zip(given, gradients, strict=True):
            self._same(Ref(outs[position], 0), gradient)
            where[Ref(outs[position], 0)] = self.where[gradient]
        for index in layer.backward:
            self._copy(self.nodes[index], where, call)
        for k, position in enumerate(wanted):
            self._same(Ref(ins[position], 0), Ref(node.index, k))
            self.where[Ref(node.index, k)] = where[self.nodes[ins[position]].args[0]]

    def _constants(self) -> dict[Ref, Ref]:
        return {old: new for old, new in self.where.items() if self.nodes[old.node].kind == "constant"}

    def _same(self, first: Ref, second: Ref) -> None:
        one, two = (self.nodes[ref.node].outputs[ref.output] for ref in (first, second))
        if one != two:
            raise UnrepeatableError(f"a layer makes {two} where its first call makes {one}")
