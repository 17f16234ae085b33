"""Collapses what a trace recorded between the marks of a `local_map` into one node forward and one backward."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from berthage_torch.errors import TraceError
from berthage_torch.graph import LocalMap, Node, Placements, Ref, Region, TensorMeta, with_inputs
from berthage_torch.marks import Body, Declared, Recorder, cotangents, derived_gradients

__all__ = ["MARK", "Loose", "collapse", "replace_refs"]

MARK = "berthage.mark.default"


@dataclass
class Loose:
    """Nodes whose order and numbers are not settled.

    Attributes:
        nodes: By number; None where a node went into a region.
        instead: What to use for output 0 of a number that is gone.
    """

    nodes: list[Node | None]
    instead: dict[int, Ref] = field(default_factory=dict)

    def resolve(self, ref: Ref) -> Ref:
        """The output that stands for ``ref`` now."""
        while ref.node in self.instead:
            ref = self.instead[ref.node]
        return ref


def collapse(nodes: list[Node], recorder: Recorder) -> Loose:
    """Turn marks into regions and hints.

    Raises:
        TraceError: A region uses a tensor that is not among its arguments.
    """
    loose = Loose(list(nodes))
    marks: dict[tuple[int, str], dict[int, int]] = {}
    for node in nodes:
        if node.op != MARK:
            continue
        what, which, position = recorder.tags[node.args[1]]
        if what == "hint":
            node = dataclasses.replace(node, op="aten.alias.default", args=node.args[:1], hint=recorder.hints[which])
            loose.nodes[node.index] = node
        elif what == "pass":
            loose.nodes[node.index] = None
            loose.instead[node.index] = node.args[0]
        else:
            marks.setdefault((which, what), {})[position] = node.index
    for which, declared in enumerate(recorder.regions):
        found = {what: marks.get((which, what), {}) for what in ("in", "out", "grad-out", "grad-in")}
        if found["out"] or found["grad-in"]:
            _collapse_one(loose, nodes, declared, found)
    return loose


def _collapse_one(loose: Loose, nodes: list[Node], declared: Declared, marks: dict[str, dict[int, int]]) -> None:
    ins, outs, grad_outs, grad_ins = (marks[what] for what in ("in", "out", "grad-out", "grad-in"))
    some = nodes[next(iter((outs or grad_ins).values()))]
    backward = _inside(nodes, grad_ins.values(), {*grad_outs.values()}, lambda n: n.phase == "forward", some.path)
    needed = {ref for i in (*backward, *grad_ins.values()) for ref in nodes[i].inputs}
    used = {ref.node for ref in needed if nodes[ref.node].phase == "forward"}
    kept = used - set(ins.values())
    forward = _inside(nodes, {*outs.values(), *kept}, {*ins.values()}, lambda _: False, some.path)
    # A value that the backward body uses may be made inside, and is then not a mark but a body node itself.
    forward = sorted({*forward, *(i for i in kept if i not in outs.values())})

    in_order, out_order = sorted(ins), sorted(outs)
    saved = sorted(ref for ref in needed if ref.node in used)
    ahead = len(loose.nodes)
    position_of = {ref: len(out_order) + k for k, ref in enumerate(saved)}
    region = _region(nodes, forward, [nodes[ins[p]] for p in in_order], [ins[p] for p in in_order])
    loose.nodes.append(
        _owner(
            nodes,
            ahead,
            "local_map",
            [nodes[ins[p]].args[0] for p in in_order],
            [nodes[outs[p]].args[0] for p in out_order] + saved,
            region,
            [declared.inputs[p] for p in in_order],
            [declared.outputs[p] for p in out_order],
            ahead + 1 if grad_ins else -1,
            some.path,
            (in_order, out_order),
            declared.body,
            any(nodes[i].recompute for i in forward),
        )
    )
    gone = {*forward, *ins.values(), *outs.values(), *backward, *grad_outs.values(), *grad_ins.values()}
    for index in gone:
        loose.nodes[index] = None
    for k, position in enumerate(out_order):
        loose.instead[outs[position]] = Ref(ahead, k)
    if not grad_ins:
        return
    gout_order, gin_order = sorted(grad_outs), sorted(grad_ins)
    gradients = derived_gradients(declared)
    sources = [grad_outs[p] for p in gout_order]
    entries = [nodes[i] for i in sources]
    body = _region(nodes, backward, entries, sources, saved)
    loose.nodes.append(
        _owner(
            nodes,
            ahead + 1,
            "local_map_backward",
            [*(nodes[i].args[0] for i in sources), *(Ref(ahead, position_of[ref]) for ref in saved)],
            [nodes[grad_ins[p]].args[0] for p in gin_order],
            body,
            cotangents([declared.outputs[p] for p in gout_order]),
            [gradients[p] for p in gin_order],
            ahead,
            some.path,
            (gout_order, gin_order),
            declared.body,
        )
    )
    for k, position in enumerate(gin_order):
        loose.instead[grad_ins[position]] = Ref(ahead + 1, k)


def _inside(
    nodes: list[Node], ends: Iterable[int], stops: set[int], outside: Callable[[Node], bool], path: str
) -> list[int]:
    """What is computed on the way to ``ends``, from ``stops`` on; ends that are marks are not part of it."""
    found: set[int] = set()
    todo = [ref.node for end in ends for ref in nodes[end].inputs]
    while todo:
        index = todo.pop()
        node = nodes[index]
        if index in found or index in stops or outside(node):
            continue
        if node.kind not in ("op", "constant") or node.op == MARK:
            what = f"{node.kind} {node.fqn!r}" if node.fqn else f"tensor {node.name!r}"
            raise TraceError(
                f"the local_map region in module {path!r} uses {what}, which is not among its arguments: "
                "pass it, with a placement",
                op="berthage.local_map",
                path=path,
            )
        found.add(index)
        todo.extend(ref.node for ref in node.inputs)
    return sorted(found)


def _region(
    nodes: list[Node], body: list[int], entries: list[Node], sources: list[int], saved: list[Ref] | None = None
) -> tuple[list[Node], dict[Ref, Ref]]:
    """The body's nodes, numbered from 0 behind its inputs, and where each value outside is found inside."""
    inner: list[Node] = []
    where: dict[Ref, Ref] = {}
    for entry, source in zip(entries, sources, strict=True):
        where[Ref(source, 0)] = Ref(len(inner), 0)
        inner.append(Node(len(inner), f"given_{len(inner)}", "input", outputs=entry.outputs, phase=entry.phase))
    for ref in saved or ():
        where[ref] = Ref(len(inner), 0)
        meta = nodes[ref.node].outputs[ref.output]
        inner.append(Node(len(inner), f"saved_{len(inner)}", "input", outputs=(meta,), phase="forward"))
    for index in body:
        node = nodes[index]
        for output in range(len(node.outputs)):
            where[Ref(index, output)] = Ref(len(inner), output)
        args = replace_refs(node.args, where.__getitem__)
        kwargs = tuple((key, replace_refs(value, where.__getitem__)) for key, value in node.kwargs)
        at = len(inner)
        name = f"{node.op.split('.')[1]}_{at}" if node.op else f"{node.kind}_{at}"
        inner.append(with_inputs(dataclasses.replace(node, index=at, name=name, args=args, kwargs=kwargs)))
    return inner, where


def _owner(
    nodes: list[Node],
    index: int,
    op: str,
    sources: list[Ref],
    results: list[Ref],
    region: tuple[list[Node], dict[Ref, Ref]],
    inputs: Iterable[Placements],
    outputs: Iterable[Placements],
    pair: int,
    path: str,
    positions: tuple[list[int], list[int]],
    run: Body | None,
    recompute: bool = False,
) -> Node:
    inner, where = region
    ins: list[Placements | None] = list(inputs)
    outs: list[Placements | None] = list(outputs)
    ins += [None] * (len(sources) - len(ins))
    outs += [None] * (len(results) - len(outs))
    metas: list[TensorMeta | None] = [nodes[ref.node].outputs[ref.output] for ref in results]
    dims = [nodes[ref.node].batch_dims for ref in results]
    return with_inputs(
        Node(
            index,
            f"{op}_{index}",
            "op",
            op=f"berthage.{op}",
            args=tuple(sources),
            outputs=tuple(metas),
            phase="backward" if op.endswith("backward") else "forward",
            path=path,
            recompute=recompute,
            batch_dims=tuple(d[r.output] for d, r in zip(dims, results, strict=True)) if all(dims) else (),
            local_map=LocalMap(
                tuple(ins),
                tuple(outs),
                Region(tuple(inner), tuple(where[ref] for ref in results)),
                pair,
                (tuple(positions[0]), tuple(positions[1])),
                run,
            ),
        )
    )


def replace_refs(value: Any, new: Callable[[Ref], Ref]) -> Any:
    """A nested argument with other refs."""
    if isinstance(value, Ref):
        return new(value)
    if type(value) is tuple:
        return tuple(replace_refs(item, new) for item in value)
    return value
