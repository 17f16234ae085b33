"""`local_map` regions on the shards of one rank: the function traced at local sizes, its backward derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from berthage_nccl import placements as codes
from berthage_torch.errors import ApplyError
from berthage_torch.graph import Node, TensorMeta
from berthage_torch.policy import torch_dtype

from .extents import Place, Shape
from .writing import Writer

__all__ = ["RegionWriter"]

Placement = Sequence[int]


class RegionWriter:
    """Writes one region: the forward part first, the backward part once the gradients of its results are there.

    Args:
        write: Where to.
        place: The rank.
        forward: The region's forward node.
        backward: Its backward node, if any.
        metas: What is known of the tensors of the forward node's ``inputs``, global sizes.
        inputs: Their placements.
        outputs: Placements of its results.
        device: The device that runs it.

    Raises:
        ApplyError: The function fails on shards, or gives other shapes than declared.
    """

    def __init__(
        self,
        write: Writer,
        place: Place,
        forward: Node,
        backward: Node | None,
        metas: Sequence[TensorMeta],
        inputs: Sequence[Placement],
        outputs: Sequence[Placement],
        device: torch.device,
    ) -> None:
        region = forward.local_map
        if region is None or region.run is None:
            raise ApplyError(
                f"{forward.name}: the trace does not hold the function of the region; trace the module again"
            )
        self._write, self._place, self._node, self._region = write, place, forward, region
        self._placed = outputs
        pair = backward.local_map if backward is not None else None
        self._taken = pair.positions[0] if pair is not None else ()
        self._wanted = pair.positions[1] if pair is not None else ()
        given = [(place.shape(meta.shape, row), meta.dtype) for meta, row in zip(metas, inputs, strict=True)]
        self._traced, self._results = self._trace(given, device)
        self._copies: dict[fx.Node, Any] = {}

    def forward(self, tensors: Sequence[fx.Node]) -> list[fx.Node | None]:
        """The declared results, from what the rank holds of the arguments."""
        holders = [node for node in self._traced.graph.nodes if node.op == "placeholder"]
        self._copies.update(zip(holders, tensors, strict=False))
        self._copy(self._early())
        return [self._copies[node] for node in self._outputs()[: len(self._results)]]

    def backward(self, gradients: Sequence[fx.Node]) -> list[fx.Node | None]:
        """The gradients of the arguments that have one, from those of the results."""
        holders = [node for node in self._traced.graph.nodes if node.op == "placeholder"]
        self._copies.update(zip(holders[len(holders) - len(gradients) :], gradients, strict=True))
        self._copy(list(self._traced.graph.nodes))
        return [None if node is None else self._copies[node] for node in self._outputs()[len(self._results) :]]

    def _outputs(self) -> list[Any]:
        return list(self._traced.graph.output_node().args[0])  # type: ignore[arg-type]

    def _early(self) -> list[fx.Node]:
        """What does not need the gradients of the results: it runs forward, and is kept where backward needs it."""
        holders = [node for node in self._traced.graph.nodes if node.op == "placeholder"]
        late = set(holders[len(holders) - len(self._taken) :]) if self._taken else set()
        found = []
        for node in self._traced.graph.nodes:
            if node in late or any(use in late for use in node.all_input_nodes):
                late.add(node)
            else:
                found.append(node)
        return found

    def _copy(self, nodes: list[fx.Node]) -> None:
        for node in nodes:
            if node in self._copies or node.op in ("placeholder", "output"):
                continue
            if node.op != "call_function":
                raise ApplyError(f"{self._node.name}: the region uses {node.op} {node.target}; pass it as an argument")
            args = fx.map_arg(node.args, self._copies.__getitem__)
            kwargs = fx.map_arg(node.kwargs, self._copies.__getitem__)
            self._copies[node] = self._write.call(node.target, *args, **kwargs)

    def _trace(
        self, given: list[tuple[Shape, str]], device: torch.device
    ) -> tuple[fx.GraphModule, list[tuple[Shape, str]]]:
        region = self._region
        results: list[tuple[Shape, str]] = []
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        averaged = [self._ranks_averaged(row) for row in self._placed]

        def step(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list[torch.Tensor | None]:
            leaves = [
                t.detach().requires_grad_() if position in self._wanted else t
                for position, t in zip(region.positions[0], tensors, strict=True)
            ]
            with torch.enable_grad():
                outs = region.run(leaves)
            outs = [outs[position] for position in region.positions[1]]
            results[:] = [(tuple(o.shape), str(o.dtype).removeprefix("torch.")) for o in outs]
            self._check(results)
            if not self._wanted:
                return [o.detach() for o in outs]
            at = {position: k for k, position in enumerate(region.positions[1])}
            ends = [outs[at[position]] for position in self._taken]
            scaled = [
                g / averaged[at[p]] if averaged[at[p]] > 1 else g for p, g in zip(self._taken, gradients, strict=True)
            ]
            asked = [leaves[region.positions[0].index(position)] for position in self._wanted]
            found = torch.autograd.grad(ends, asked, scaled, allow_unused=True)
            return [*(o.detach() for o in outs), *found]

        with mode, torch.device(device):
            tensors = [torch.empty(shape, dtype=torch_dtype(dtype)) for shape, dtype in given]
            metas = dict(zip(region.positions[1], self._node.outputs, strict=False))
            gradients = []
            for position in self._taken:
                meta = metas[position]
                assert meta is not None  # a declared result exists
                row = self._placed[region.positions[1].index(position)]
                gradients.append(torch.empty(self._place.shape(meta.shape, row), dtype=torch_dtype(meta.dtype)))
        try:
            traced = make_fx(step, tracing_mode="fake", _allow_non_fake_inputs=True)(tensors, gradients)
        except ApplyError:
            raise
        except Exception as error:
            sizes = ", ".join(f"{list(shape)}" for shape, _ in given)
            raise ApplyError(
                f"{self._node.name}: the local_map function failed on shards of sizes {sizes} "
                f"({type(error).__name__}: {str(error).splitlines()[0][:200]})"
            ) from error
        return traced, results

    def _ranks_averaged(self, row: Placement) -> int:
        """By how much the gradient of a result is more than that of a rank's part of it."""
        found = 1
        for code, ranks in zip(row, self._place.sizes, strict=True):
            found *= ranks if int(code) == codes.PARTIAL_AVG else 1
        return found

    def _check(self, results: list[tuple[Shape, str]]) -> None:
        """Compare the sizes of the results with those declared."""
        for k, ((found, _), meta, row) in enumerate(zip(results, self._node.outputs, self._placed, strict=False)):
            assert meta is not None  # a declared result exists
            wanted = self._place.shape(meta.shape, row)
            if found != wanted:
                raise ApplyError(
                    f"{self._node.name}: result {k} of the local_map function has sizes {list(found)} on a rank, and "
                    f"{codes.format(row)} of {list(meta.shape)} is {list(wanted)}"
                )
