"""A lowered plan run by all ranks in one process: the graphs of all ranks step by step, collectives between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn
from torch_parallel import distance, on_one
from torch_ranks import gather, scatter

from berthage_torch import MixedPrecision, OpGraph, Plan
from berthage_torch.applying.extents import Place
from berthage_torch.applying.lowering import Lowered, lower
from berthage_torch.applying.steps import COLLECTIVE

Tensor = torch.Tensor


class Ranks:
    """All ranks of a mesh, each with the step that it runs."""

    def __init__(self, plan: Plan, graph: OpGraph) -> None:
        self.sizes, self.names = tuple(plan.mesh.values()), tuple(plan.mesh)
        self.places = list(itertools.product(*(range(size) for size in self.sizes)))
        cpu = torch.device("cpu")
        self.lowered: list[Lowered] = [
            lower(plan, graph, Place(self.sizes, place), self.names, cpu) for place in self.places
        ]

    @classmethod
    def of(cls, sizes: tuple[int, ...], names: tuple[str, ...]) -> Ranks:
        """Ranks without a step."""
        made = cls.__new__(cls)
        made.sizes, made.names, made.lowered = sizes, names, []
        made.places = list(itertools.product(*(range(size) for size in sizes)))
        return made

    def run(self, which: str, tensors: Sequence[Sequence[Tensor]]) -> list[list[Any]]:
        """One pass on all ranks: results by rank."""
        return self.go([getattr(one, which).module for one in self.lowered], tensors)

    def go(self, modules: Sequence[fx.GraphModule], tensors: Sequence[Sequence[Tensor]]) -> list[list[Any]]:
        """A module on each rank: results by rank."""
        passes = [_Pass(module, given) for module, given in zip(modules, tensors, strict=True)]
        while True:
            waiting = [one.advance() for one in passes]
            if all(node is None for node in waiting):
                return [one.results for one in passes]
            self._collective([node for node in waiting if node is not None], passes)

    def _collective(self, nodes: Sequence[fx.Node], passes: Sequence[_Pass]) -> None:
        assert len(nodes) == len(passes), "some ranks are done where others wait for them"
        assert len({node.meta[COLLECTIVE][:2] for node in nodes}) == 1, "ranks wait for different collectives"
        kind, name, _ = nodes[0].meta[COLLECTIVE]
        dim = self.names.index(name)
        groups: dict[Any, list[int]] = {}
        for rank, place in enumerate(self.places):
            groups.setdefault((*place[:dim], *place[dim + 1 :]), []).append(rank)
        for ranks in groups.values():
            sent = [passes[rank].values[nodes[rank].args[0]] for rank in ranks]
            got = _exchange(kind, nodes[ranks[0]], sent)
            for rank, tensor in zip(ranks, got, strict=True):
                passes[rank].values[nodes[rank]] = tensor.clone()
                nbytes = max(sent[0].nbytes, tensor.nbytes)
                size = nodes[rank].meta[COLLECTIVE][2]
                assert nbytes == size, f"{kind} of {nbytes} bytes is said to have {size}"


def apart(ranks: Ranks, tensor: Tensor, placement: Sequence[int]) -> list[Tensor]:
    """What each rank holds of a whole tensor; pending sums in parts by chance."""
    pieces = scatter(tensor, placement, ranks.sizes)
    return [pieces[place] for place in ranks.places]


def together(ranks: Ranks, parts: Sequence[Tensor], shape: Sequence[int], placement: Sequence[int]) -> Tensor:
    """The whole tensor in float64; fails when ranks that hold the same differ."""
    found = gather(dict(zip(ranks.places, (part.double() for part in parts), strict=True)), placement, ranks.sizes)
    assert tuple(found.shape) == tuple(shape)
    return found


class _Pass:
    """One pass of one rank."""

    def __init__(self, module: fx.GraphModule, given: Sequence[Tensor]) -> None:
        self.module, self.taken = module, iter(given)
        self.left = iter(list(module.graph.nodes))
        self.values: dict[fx.Node, Any] = {}
        self.results: list[Any] = []

    def advance(self) -> fx.Node | None:
        """Run up to the next collective; None when there is none."""
        for node in self.left:
            if COLLECTIVE in node.meta:
                return node
            args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
            if node.op == "placeholder":
                self.values[node] = next(self.taken)
            elif node.op == "get_attr":
                self.values[node] = getattr(self.module, str(node.target))
            elif node.op == "output":
                self.results = list(args[0])
            elif "wait_tensor" in str(node.target):
                self.values[node] = args[0]
            else:
                self.values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        return None


def _exchange(kind: str, node: fx.Node, sent: Sequence[Tensor]) -> list[Tensor]:
    """What each rank of a group gets."""
    assert len({tuple(t.shape) for t in sent}) == 1
    assert all(t.is_contiguous() for t in sent)
    many = len(sent)
    if kind == "all-gather":
        return [torch.cat(list(sent))] * many
    if kind == "all-to-all":
        parts = [t.chunk(many) for t in sent]
        return [torch.cat([row[k] for row in parts]) for k in range(many)]
    stacked, op = torch.stack(list(sent)), node.args[1]
    total = stacked.sum(0) if op == "sum" else stacked.amax(0) if op == "max" else stacked.amin(0)
    total = total.to(sent[0].dtype)
    return [total] * many if kind == "all-reduce" else list(total.chunk(many))


def step_both_ways(
    model: nn.Module, inputs: tuple[Tensor, ...], plan: Plan, graph: OpGraph, policy: MixedPrecision | None = None
) -> tuple[float, float]:
    """How far outputs and the worst gradient are from those on one device, relative to their norms."""
    ranks = Ranks(plan, graph)
    first = ranks.lowered[0]
    state = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    everything = [state[one.name].detach() for one in (*first.parameters, *first.buffers)] + list(inputs)
    abouts = [(*one.parameters, *one.buffers, *one.inputs) for one in ranks.lowered]
    columns = [apart(ranks, t, abouts[0][k].placement) for k, t in enumerate(everything)]
    results = ranks.run("forward", list(zip(*columns, strict=True)))
    wanted = on_one(model, policy, inputs)
    outs = list(wanted) if isinstance(wanted, (tuple, list)) else [wanted]
    output, tangents = 0.0, []
    for k, (about, out) in enumerate(zip(first.outputs, outs, strict=True)):
        output = max(output, distance(together(ranks, [r[k] for r in results], about.whole, about.placement), out))
        if k in first.tangents:
            tangents.append(torch.randn(out.shape, dtype=torch.float32).to(out.dtype))
    torch.autograd.backward([outs[k] for k in first.tangents], tangents)
    given = [apart(ranks, t, first.outputs[k].placement) for k, t in zip(first.tangents, tangents, strict=True)]
    many = len(first.outputs) + len(first.mutated)
    back = ranks.run("backward", [[*r[many:], *(g[n] for g in given)] for n, r in enumerate(results)])
    worst = 0.0
    for k, about in enumerate(first.parameters):
        gradient = state[about.name].grad
        assert (back[0][k] is None) == (gradient is None), about.name
        if gradient is not None:
            got = together(ranks, [row[k] for row in back], about.whole, about.placement)
            worst = max(worst, distance(got, gradient))
    return output, worst
