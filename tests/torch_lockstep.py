"""A lowered plan run by all ranks in one process: the graphs of all ranks step by step, collectives between them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from berthage_nccl import placements as codes
from berthage_torch import OpGraph, Plan
from berthage_torch.applying.extents import Place
from berthage_torch.applying.lowering import LocalTensor, Lowered, lower
from berthage_torch.applying.steps import COLLECTIVE

Tensor = torch.Tensor


class Ranks:
    """All ranks of a mesh, each with the step that it runs."""

    def __init__(self, plan: Plan, graph: OpGraph) -> None:
        self.sizes = tuple(plan.mesh.values())
        self.names = tuple(plan.mesh)
        self.places = list(itertools.product(*(range(size) for size in self.sizes)))
        cpu = torch.device("cpu")
        self.lowered: list[Lowered] = [
            lower(plan, graph, Place(self.sizes, place), self.names, cpu) for place in self.places
        ]

    def cut(self, tensor: Tensor, local: Sequence[LocalTensor]) -> list[Tensor]:
        """What each rank holds of a whole tensor."""
        found = []
        for place, one in zip(self.places, local, strict=True):
            part = tensor
            for d, (start, length) in enumerate(Place(self.sizes, place).extents(tuple(tensor.shape), one.placement)):
                part = part.narrow(d, start, length)
            assert tuple(part.shape) == one.shape
            found.append(part.contiguous())
        return found

    def join(self, parts: Sequence[Tensor], whole: Sequence[int], placement: Sequence[int]) -> Tensor:
        """The whole tensor; fails when ranks that hold the same differ."""
        made = torch.full(tuple(whole), float("nan")).to(torch.float64)
        for place, part in zip(self.places, parts, strict=True):
            at = made
            for d, (start, length) in enumerate(Place(self.sizes, place).extents(tuple(whole), placement)):
                at = at.narrow(d, start, length)
            held = ~at.isnan()
            assert torch.equal(at[held], part.double()[held]), "ranks that hold the same differ"
            at.copy_(part)
        return made

    def run(self, which: str, tensors: Sequence[Sequence[Tensor]]) -> list[list[Any]]:
        """One pass on all ranks: results by rank."""
        graphs = [list(getattr(one, which).module.graph.nodes) for one in self.lowered]
        modules = [getattr(one, which).module for one in self.lowered]
        values: list[dict[fx.Node, Any]] = [{} for _ in self.places]
        taken = [iter(given) for given in tensors]
        results: list[list[Any]] = []
        for nodes in zip(*graphs, strict=True):
            assert len({node.op for node in nodes}) == 1
            if COLLECTIVE in nodes[0].meta:
                self._collective(nodes, values)
                continue
            for rank, node in enumerate(nodes):
                known = values[rank]
                args, kwargs = fx.map_arg((node.args, node.kwargs), known.__getitem__)
                if node.op == "placeholder":
                    known[node] = next(taken[rank])
                elif node.op == "get_attr":
                    known[node] = getattr(modules[rank], node.target)
                elif node.op == "output":
                    results.append(list(args[0]))
                elif "wait_tensor" in str(node.target):
                    known[node] = args[0]
                else:
                    known[node] = node.target(*args, **kwargs)
        return results

    def _collective(self, nodes: Sequence[fx.Node], values: list[dict[fx.Node, Any]]) -> None:
        kind, name, size = nodes[0].meta[COLLECTIVE]
        dim = self.names.index(name)
        groups: dict[Any, list[int]] = {}
        for rank, place in enumerate(self.places):
            groups.setdefault((*place[:dim], *place[dim + 1 :]), []).append(rank)
        for ranks in groups.values():
            sent = [values[rank][nodes[rank].args[0]] for rank in ranks]
            assert len({tuple(t.shape) for t in sent}) == 1
            assert all(t.is_contiguous() for t in sent)
            many = len(ranks)
            if kind in ("all-reduce", "reduce-scatter"):
                op = nodes[0].args[1]
                stacked = torch.stack(sent)
                total = stacked.sum(0) if op == "sum" else stacked.amax(0) if op == "max" else stacked.amin(0)
                got = [total.clone()] * many if kind == "all-reduce" else list(total.to(sent[0].dtype).chunk(many))
            elif kind == "all-gather":
                got = [torch.cat(sent)] * many
            else:
                parts = [list(t.chunk(many)) for t in sent]
                got = [torch.cat([row[k] for row in parts]) for k in range(many)]
            for rank, tensor in zip(ranks, got, strict=True):
                values[rank][nodes[rank]] = tensor.clone()
                nbytes = max(sent[0].nbytes, tensor.nbytes)
                assert nbytes == nodes[rank].meta[COLLECTIVE][2], f"{kind} of {nbytes} bytes is said to have {size}"


def shard_dims(placement: Sequence[int]) -> str:
    return codes.format(placement)
