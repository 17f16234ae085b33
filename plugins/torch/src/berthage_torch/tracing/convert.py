"""From torch's joint graph to an `OpGraph`: plain data, dead code gone, regions collapsed, casts beside their use."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._functorch._aot_autograd import descriptors as aot
from torch.utils.checkpoint import CheckpointPolicy

from berthage_torch.errors import TraceError
from berthage_torch.graph import Named, Node, OpGraph, Ref, TensorMeta, with_inputs
from berthage_torch.ops import RENAMED
from berthage_torch.policy import dtype_name

from .capture import AGAIN, PATH, Capture
from .expand import expand
from .order import arrange, name_casts
from .regions import collapse

__all__ = ["convert"]

_SAME = frozenset(f"aten.{op}.default" for op in ("detach", "alias", "lift_fresh", "lift_fresh_copy"))
_VIEWS = frozenset(
    f"aten.{op}"
    for op in ("view.default", "_unsafe_view.default", "expand.default", "slice.Tensor", "slice_backward.default")
)


def convert(captured: Capture, batch: int | None = None) -> OpGraph:
    """The graph of a capture.

    Args:
        captured: The captured step.
        batch: Batch size that the sizes are for; the one of the trace's inputs unless given. Another needs a capture
            with a symbolic batch size.

    Raises:
        UnrepeatableError: Repeated layers do not copy; capture without ``repeat``.
        TraceError: The trace does not hold for this batch size, or a region uses tensors that are not its arguments.
    """
    sizes = _Sizes(captured, batch)
    reader = _Reader(captured, sizes)
    nodes, recorder, moved = expand(reader.read(), captured.recorder, (ref for _, _, ref in reader.results))
    reader.results = [(kind, desc, moved(ref)) for kind, desc, ref in reader.results]
    name_casts(nodes, (ref for kind, _, ref in reader.results if kind == "GradAOTOutput"))
    nodes, place, traced = arrange(collapse(nodes, recorder))
    return _assemble(nodes, place, reader, captured, sizes.batch, traced)


class _Sizes:
    """Numbers of the trace as plain integers, for one batch size."""

    def __init__(self, captured: Capture, batch: int | None) -> None:
        symbolic = captured.batch
        self.batch = 0
        self.values: dict[Any, Any] = {}
        if symbolic is None:
            if batch is not None:
                raise TraceError("the graph was traced for its sizes only; trace with dynamic_batch=True")
            return
        self.batch = symbolic.size if batch is None else batch
        if self.batch < 1:
            raise TraceError(f"a batch size is at least 1, not {batch}")
        self.values = {symbolic.symbol: sympy.Integer(self.batch)}
        replaced = symbolic.shape_env.replacements.get(symbolic.symbol)
        if replaced is not None:
            raise TraceError(
                f"the model works for batch size {replaced} only (it compares or mixes the batch size with a fixed "
                "one); trace without dynamic_batch, once for each batch size"
            )
        for guard in symbolic.shape_env.guards:
            if self.batch > 1 and guard.expr.xreplace(self.values) == False:  # noqa: E712 - sympy's own false
                raise TraceError(f"the trace does not hold for batch size {self.batch}: {guard.expr} is false")

    def __call__(self, size: Any) -> int:
        if isinstance(size, torch.SymInt):
            value = size.node.expr.xreplace(self.values)
            if not value.is_Integer:
                raise TraceError(f"a size is {size.node.expr} for batch size {self.batch}, which is no whole number")
            return int(value)
        return int(size)

    @staticmethod
    def follows(size: Any) -> bool:
        """Whether a size follows the batch size."""
        return isinstance(size, torch.SymInt) and bool(size.node.expr.free_symbols)


class _Reader:
    """Reads fx nodes; every node's index is its place in ``nodes``."""

    def __init__(self, captured: Capture, sizes: _Sizes) -> None:
        self.captured = captured
        self.sizes = sizes
        self.nodes: list[Node] = []
        self.refs: dict[torch.fx.Node, Any] = {}
        self.metas: dict[Any, TensorMeta] = {}
        self.constants: dict[Any, Any] = {}
        self.parameters: dict[str, int] = {}
        self.buffers: dict[str, int] = {}
        self.inputs: list[tuple[int, int]] = []
        self.tangents: dict[int, int] = {}
        self.results: list[tuple[str, Any, Ref]] = []

    def read(self) -> list[Node]:
        order = list(self.captured.graph.nodes)
        live = _live(order)
        for node in order:
            if node.op == "output":
                self._results(node)
            elif node.op == "placeholder":
                self._placeholder(node)
            elif node in live:
                self._operation(node)
        return self.nodes

    def _add(self, node: torch.fx.Node, kind: str, **known: Any) -> int:
        value = node.meta.get("val")
        values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
        index = len(self.nodes)
        dims: tuple[tuple[int, ...], ...] = ()
        if self.sizes.values:
            dims = tuple(_following(v) for v in values)
        backward = node.meta.get("partitioner_tag") in ("is_backward", "must_be_in_backward")
        path = node.meta.get("custom", {}).get(PATH, "")
        self.nodes.append(
            Node(
                index,
                node.name,
                kind,
                outputs=tuple(self._meta(v) for v in values),
                phase="backward" if backward else "forward",
                path=path,
                batch_dims=dims,
                recompute=not backward and _again(node),
                **known,
            )
        )
        self.refs[node] = Ref(index, 0)
        return index

    def _meta(self, value: Any) -> TensorMeta | None:
        if not isinstance(value, torch.Tensor):
            return None
        shape = tuple(self.sizes(s) for s in value.shape)
        stride = tuple(self.sizes(s) for s in value.stride())
        key = (shape, value.dtype, stride)
        if key not in self.metas:
            self.metas[key] = TensorMeta(shape, dtype_name(value.dtype), value.dtype.itemsize, stride)
        return self.metas[key]

    def _placeholder(self, node: torch.fx.Node) -> None:
        desc = node.meta.get("desc")
        if not isinstance(node.meta.get("val"), torch.Tensor):
            return
        if isinstance(desc, aot.ParamAOTInput):
            names = self.captured.parameter_names[desc.target]
            index = self._add(node, "parameter", fqn=names[0])
            self.parameters.update(dict.fromkeys(names, index))
        elif isinstance(desc, aot.BufferAOTInput):
            names = self.captured.buffer_names[desc.target]
            index = self._add(node, "buffer", fqn=names[0])
            self.buffers.update(dict.fromkeys(names, index))
        elif isinstance(desc, aot.PlainAOTInput):
            index = self._add(node, "input", fqn=self.captured.input_names[desc.idx])
            self.inputs.append((desc.idx, index))
        elif isinstance(desc, aot.TangentAOTInput):
            output = desc.output
            position = output.idx if isinstance(output, aot.PlainAOTOutput) else -1
            name = self.captured.output_names[position] if position >= 0 else "output of " + repr(output)
            index = self._add(node, "tangent", fqn=name)
            self.nodes[index] = dataclasses.replace(self.nodes[index], phase="backward")
            self.tangents[position] = index
        else:
            raise TraceError(f"the trace has an argument of a kind that is not known here: {desc!r}")

    def _operation(self, node: torch.fx.Node) -> None:
        if node.op == "get_attr":
            self._add(node, "constant", fqn=str(node.target))
            return
        if node.target is operator.getitem:
            source = self.refs[node.all_input_nodes[0]]
            self.refs[node] = Ref(source.node, int(node.args[1]))  # type: ignore[arg-type]
            return
        if not _makes_tensors(node):
            return
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            raise TraceError(
                f"{target} in module {node.meta.get('custom', {}).get(PATH, '')!r} is no plain tensor operation; "
                "write it without control flow operators",
                op=str(target),
            )
        op = str(target)
        if op in _SAME or (op in _VIEWS and self._changes_nothing(node)):
            self.refs[node] = self.refs[node.all_input_nodes[0]]
            return
        args = tuple(self._value(arg) for arg in node.args)
        kwargs = tuple((key, self._value(value)) for key, value in sorted(node.kwargs.items()))
        index = self._add(node, "op", op=RENAMED.get(op, op), args=args, kwargs=kwargs)
        self.nodes[index] = with_inputs(self.nodes[index])

    def _changes_nothing(self, node: torch.fx.Node) -> bool:
        """Whether a view has the sizes and strides of what it looks at."""
        return self._meta(node.all_input_nodes[0].meta["val"]) == self._meta(node.meta["val"])

    def _value(self, value: Any) -> Any:
        """An argument as plain data."""
        if isinstance(value, torch.fx.Node):
            if value in self.refs:
                return self.refs[value]
            return self._value(value.meta.get("val"))
        if isinstance(value, (list, tuple)):
            return tuple(self._value(item) for item in value)
        if isinstance(value, torch.SymInt):
            return self.sizes(value)
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, complex):
            return ("complex", value.real, value.imag)
        for kind, cls in _NAMED.items():
            if isinstance(value, cls):
                return Named(kind, str(value).removeprefix("torch."))
        raise TraceError(f"an argument of type {type(value).__name__} has no plain form: {value!r}")

    def _results(self, node: torch.fx.Node) -> None:
        descs = node.meta.get("desc", ())
        for desc, value in zip(descs, node.args[0], strict=True):  # type: ignore[arg-type]
            if isinstance(value, torch.fx.Node) and value in self.refs:
                ref = self.refs[value]
                self.results.append((type(desc).__name__, desc, ref))


_NAMED = {
    "dtype": torch.dtype,
    "device": torch.device,
    "layout": torch.layout,
    "memory_format": torch.memory_format,
}


def _live(order: list[torch.fx.Node]) -> set[torch.fx.Node]:
    """What a result needs."""
    live: set[torch.fx.Node] = set()
    for node in reversed(order):
        if node.op == "output" or node in live:
            live.update(node.all_input_nodes)
    return live


def _makes_tensors(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return any(isinstance(item, torch.Tensor) for item in value)
    return isinstance(value, torch.Tensor)


def _again(node: torch.fx.Node) -> bool:
    """Whether a node is checkpointed, and not among those that a policy wants kept."""
    kept = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
    return bool(node.meta.get("custom", {}).get(AGAIN)) and node.meta.get("recompute") not in kept


def _following(value: Any) -> tuple[int, ...]:
    if not isinstance(value, torch.Tensor):
        return ()
    return tuple(d for d, size in enumerate(value.shape) if _Sizes.follows(size))


def _assemble(
    nodes: list[Node],
    place: Mapping[int, Ref | int],
    reader: _Reader,
    captured: Capture,
    batch: int,
    traced: dict[str, str],
) -> OpGraph:
    """Add the output nodes and the tables."""
    nodes = list(nodes)
    outputs: dict[int, int] = {}
    gradients: dict[str, Ref] = {}
    gradient_nodes: dict[str, int] = {}
    input_grads: dict[int, Ref] = {}
    mutations: dict[str, Ref] = {}
    input_at = dict(reader.inputs)

    def moved(ref: Ref) -> Ref:
        to = place[ref.node]
        return to if isinstance(to, Ref) else Ref(to, ref.output)

    def add(name: str, fqn: str, role: str, ref: Ref) -> int:
        meta = nodes[ref.node].outputs[ref.output]
        phase = "backward" if "gradient" in role else "forward"
        dims = nodes[ref.node].batch_dims
        nodes.append(
            Node(
                len(nodes),
                name,
                "output",
                args=(ref,),
                outputs=(meta,),
                phase=phase,
                fqn=fqn,
                role=role,
                inputs=(ref,),
                batch_dims=(dims[ref.output],) if dims else (),
            )
        )
        return len(nodes) - 1

    for kind, desc, old in reader.results:
        ref = moved(old)
        if kind == "PlainAOTOutput":
            name = captured.output_names[desc.idx]
            outputs[desc.idx] = add(name, name, "output", ref)
        elif kind == "GradAOTOutput" and isinstance(desc.grad_of, aot.ParamAOTInput):
            names = captured.parameter_names[desc.grad_of.target]
            index = add(f"gradient:{names[0]}", names[0], "gradient", ref)
            for fqn in names:
                gradients[fqn], gradient_nodes[fqn] = ref, index
        elif kind == "GradAOTOutput" and isinstance(desc.grad_of, aot.PlainAOTInput):
            source = input_at[desc.grad_of.idx]
            fqn = nodes[_at(place, source)].fqn
            add(f"gradient:{fqn}", fqn, "input-gradient", ref)
            input_grads[_at(place, source)] = ref
        elif kind == "InputMutationAOTOutput":
            target = desc.mutated_input
            if isinstance(target, aot.BufferAOTInput):
                names = captured.buffer_names[target.target]
                add(f"new:{names[0]}", names[0], "mutation", ref)
                mutations.update(dict.fromkeys(names, ref))
            else:
                add(f"new:{target!r}", repr(target), "mutation", ref)
        else:
            add(f"extra:{desc!r}", repr(desc), "output", ref)
    tangents = {outputs[i]: _at(place, node) for i, node in reader.tangents.items() if i in outputs}
    return OpGraph(
        tuple(nodes),
        inputs=tuple(_at(place, index) for _, index in sorted(reader.inputs)),
        outputs=tuple(outputs[i] for i in sorted(outputs)),
        parameters=MappingProxyType({n: _at(place, i) for n, i in reader.parameters.items()}),
        buffers=MappingProxyType({n: _at(place, i) for n, i in reader.buffers.items()}),
        gradients=MappingProxyType(gradients),
        gradient_nodes=MappingProxyType(gradient_nodes),
        input_grads=MappingProxyType(input_grads),
        tangents=MappingProxyType(tangents),
        mutations=MappingProxyType(mutations),
        batch=batch,
        fx=captured,
        fx_names=MappingProxyType(traced),
    )


def _at(place: Mapping[int, Ref | int], index: int) -> int:
    to = place[index]
    return to.node if isinstance(to, Ref) else to
