"""Writes the torch graph of one rank; every node knows whether it belongs to the forward or the backward pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

__all__ = ["AGAIN", "PHASE", "Half", "Writer", "split"]

PHASE = "berthage_phase"
AGAIN = "berthage_again"
"""In the metadata of a node that the backward pass computes again instead of keeping its result."""

aten = torch.ops.aten


class Writer:
    """A graph under construction.

    Attributes:
        graph: The graph.
        phase: Of what is written next: ``forward`` or ``backward``.
        about: What the next nodes are for, kept in their metadata.
    """

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.phase = "forward"
        self.about: dict[str, Any] = {}

    def given(self, name: str) -> fx.Node:
        """A tensor from outside."""
        return self._tagged(self.graph.placeholder(name))

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """The result of a call."""
        return self._tagged(self.graph.call_function(target, args, kwargs))

    def constant(self, name: str) -> fx.Node:
        """A tensor that the module holds."""
        return self._tagged(self.graph.get_attr(name))

    def narrow(self, tensor: fx.Node, dim: int, start: int, length: int) -> fx.Node:
        """A copy of a part of a tensor: a view would keep all of it alive."""
        part = self.call(aten.slice.Tensor, tensor, dim, start, start + length)
        return self.call(aten.clone.default, part, memory_format=torch.contiguous_format)

    def _tagged(self, node: fx.Node) -> fx.Node:
        node.meta[PHASE] = self.phase
        node.meta.update(self.about)
        return node


@dataclass(frozen=True)
class Half:
    """One pass of a step.

    Attributes:
        module: What runs. Takes the tensors of ``given``, returns a list: the results, then what is kept.
        given: Names of the tensors it takes, in the whole graph.
        kept: Names of the tensors that it hands on to the other pass.
    """

    module: fx.GraphModule
    given: tuple[str, ...]
    kept: tuple[str, ...] = ()


def split(
    graph: fx.Graph, constants: torch.nn.Module, forward: list[fx.Node | None], backward: list[fx.Node | None]
) -> tuple[Half, Half]:
    """Forward and backward pass of a graph whose nodes are tagged.

    Args:
        graph: The whole step.
        constants: What holds its constants.
        forward: Results of the forward pass.
        backward: Results of the backward pass; None for one that does not exist.

    Returns:
        The forward half, which returns ``forward`` and then what the backward half needs; and the backward half, which
        takes that and then the tensors from outside that belong to its phase.
    """
    _compute_again(graph)
    live = _live([*forward, *backward])
    order = [node for node in graph.nodes if node in live]
    later = [node for node in order if node.meta[PHASE] == "backward" and node.op != "placeholder"]
    needed = {use for node in later for use in node.all_input_nodes}
    needed.update(node for node in backward if node is not None)
    kept = [n for n in order if n in needed and n.meta[PHASE] == "forward" and n.op != "get_attr"]
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    first = [node for node in placeholders if node.meta[PHASE] == "forward"]
    tangents = [node for node in placeholders if node.meta[PHASE] == "backward"]
    names = tuple(node.name for node in kept)
    return (
        Half(
            _module(constants, first, [n for n in order if n.meta[PHASE] == "forward"], [*forward, *kept]),
            tuple(node.name for node in first),
            names,
        ),
        Half(_module(constants, [*kept, *tangents], order, backward), (*names, *(node.name for node in tangents))),
    )


def _compute_again(graph: fx.Graph) -> None:
    """Let the backward pass use copies of what is to be computed again, made where the first of them is used.

    What travelled is never marked: it is kept, and no collective runs that was not priced.
    """
    copies: dict[fx.Node, fx.Node] = {}

    def copy(node: fx.Node, before: fx.Node) -> fx.Node:
        todo = [node]
        while todo:
            at = todo[-1]
            needs = [use for use in at.all_input_nodes if AGAIN in use.meta and use not in copies]
            if needs:
                todo += needs
                continue
            todo.pop()
            if at not in copies:
                with graph.inserting_before(before):
                    copies[at] = graph.node_copy(at, lambda use: copies.get(use, use))
                copies[at].meta = {**at.meta, PHASE: "backward"}
                copies[at].meta.pop(AGAIN)
        return copies[node]

    for node in list(graph.nodes):
        if node.meta.get(PHASE) == "backward" and any(AGAIN in use.meta for use in node.all_input_nodes):
            for use in node.all_input_nodes:
                if AGAIN in use.meta:
                    node.replace_input_with(use, copy(use, node))


def _live(results: Iterable[fx.Node | None]) -> set[fx.Node]:
    live: set[fx.Node] = set()
    todo = [node for node in results if node is not None]
    while todo:
        node = todo.pop()
        if node not in live:
            live.add(node)
            todo.extend(node.all_input_nodes)
    return live


def _module(
    constants: torch.nn.Module, given: list[fx.Node], order: list[fx.Node], results: list[fx.Node | None]
) -> fx.GraphModule:
    """The part of a graph that is needed from ``given`` to ``results``."""
    stop = set(given)
    needed: set[fx.Node] = set()
    todo = [node for node in results if node is not None]
    while todo:
        node = todo.pop()
        if node not in needed:
            needed.add(node)
            if node not in stop:
                todo.extend(node.all_input_nodes)
    made = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in given:
        copies[node] = made.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    for node in order:
        if node in needed and node not in copies:
            copies[node] = made.node_copy(node, copies.__getitem__)
    made.output([None if node is None else copies[node] for node in results])
    return fx.GraphModule(constants, made)
