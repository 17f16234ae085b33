"""Runs a module once on tensors without data and returns torch's joint graph of forward and backward.

Uses ``torch._functorch.aot_autograd.aot_export_joint_with_descriptors`` (private, torch 2.13): its graph says what
every argument and result is, and can be compiled later.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
import torch.utils._pytree as pytree
from torch import nn
from torch._functorch.aot_autograd import aot_export_joint_with_descriptors
from torch._subclasses.fake_tensor import FakeTensorMode

from berthage_torch.errors import TraceError
from berthage_torch.marks import Recorder, recording
from berthage_torch.policy import MixedPrecision, cast_input, cast_parameter

from .fused import FusedOps
from .repeats import Repeater, UnrepeatableError, find_layers
from .state import call_with, places
from .structure import Arguments, Slot, outline, tensors_in
from .troubles import explain_failure

__all__ = ["Batch", "Capture", "capture"]

PATH = "berthage_path"
AGAIN = "berthage_recompute"


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch size that stays a symbol in the trace.

    Attributes:
        size: The size of the inputs that were given.
        symbol: The symbol that stands for it in the sizes of the trace.
        shape_env: What the trace assumed about it.
    """

    size: int
    symbol: Any
    shape_env: Any


@dataclass(frozen=True)
class Capture:
    """A captured step.

    Attributes:
        joint: Torch's ``JointWithDescriptors``.
        parameter_names: For each parameter of the traced root, the names it has in the model.
        buffer_names: Likewise for buffers.
        input_names: Names of the tensor inputs, in order.
        output_names: Names of the tensor outputs, in order.
        recorder: What `local_map` and `hint` said.
        batch: The symbolic batch size, if any.
        arguments: How the model was called.
        result: What it returned, see `outline`.
    """

    joint: Any
    parameter_names: Mapping[str, tuple[str, ...]]
    buffer_names: Mapping[str, tuple[str, ...]]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    recorder: Recorder
    batch: Batch | None = None
    arguments: Arguments | None = None
    result: Any = None

    @property
    def graph(self) -> torch.fx.Graph:
        """The graph."""
        return self.joint.graph_module.graph  # type: ignore[no-any-return]


@dataclass
class _Paths:
    """Which module is running; kept in the metadata of every operation that is recorded meanwhile."""

    stack: list[str] = field(default_factory=lambda: [""])
    failed: str = ""
    again: bool = False

    @property
    def current(self) -> str:
        return self.stack[-1]

    def enter(self, path: str) -> Callable[..., None]:
        def hook(*_: Any) -> None:
            self.stack.append(path)
            self._publish()

        return hook

    def leave(self, *_: Any) -> None:
        if sys.exc_info()[0] is not None and not self.failed:
            self.failed = self.current
        if len(self.stack) > 1:
            self.stack.pop()
        self._publish()

    def _publish(self) -> None:
        if fx_traceback.has_preserved_node_meta():
            fx_traceback.current_meta["custom"] = {PATH: self.stack[-1], AGAIN: self.again}

    def observe(self) -> None:
        """Look whether what runs now is checkpointed; a trace does not recompute, it only knows."""
        hooks: Any = torch._C._autograd._top_saved_tensors_default_hooks(True)
        again = hooks is not None and getattr(hooks[0], "__qualname__", "").startswith("_checkpoint_hook")
        if again != self.again:
            self.again = again
            self._publish()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """For what no module runs: the casts of parameters."""
        self.stack.append("")
        self._publish()
        try:
            yield
        finally:
            self.stack.pop()
            self._publish()

    @contextlib.contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        handles = []
        try:
            for path, module in model.named_modules():
                handles.append(module.register_forward_pre_hook(self.enter(path), prepend=True))
                handles.append(module.register_forward_hook(self.leave, always_call=True))
            yield
        finally:
            for handle in handles:
                handle.remove()


class _Root(nn.Module):
    """What is traced: owns data-free copies of the parameters and calls the model, which stays as it was, with them."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], buffers: Mapping[str, torch.Tensor], run: Any) -> None:
        super().__init__()
        for name, parameter in parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)
        self._run = run

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self._run(self, tensors)


def capture(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    policy: MixedPrecision | None,
    device: str,
    attention: str,
    dynamic_batch: bool,
    fake_mode: FakeTensorMode,
    repeat: bool = True,
) -> Capture:
    """Capture the joint graph of ``model(*args, **kwargs)``.

    Raises:
        UnrepeatableError: Only without ``repeat`` can it be traced.
        TraceError: It cannot be traced; the message names operation and module.
    """
    parameters, parameter_names = _copies(model.named_parameters(remove_duplicate=False), "p", fake_mode, device)
    buffers, buffer_names = _copies(model.named_buffers(remove_duplicate=False), "b", fake_mode, device)
    roots = {name: key for key, names in {**parameter_names, **buffer_names}.items() for name in names}
    held = {place: roots[place] for table in places(model) for place in table}
    leaves, spec = pytree.tree_flatten_with_path((args, dict(kwargs)))
    at = [i for i, (_, leaf) in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    input_names = tuple(_input_name(leaves[i][0]) for i in at)
    given = [leaves[i][1] for i in at]
    batch = _batch(given, fake_mode) if dynamic_batch else None
    tensors = tuple(_empty(tensor, fake_mode, device, batch) for tensor in given)
    paths, recorder = _Paths(), Recorder()
    seen: dict[str, Any] = {}
    late: set[str] = set()  # cast by the layer that they belong to
    layers = find_layers(model) if repeat else {}
    prefixes = tuple(f"{path}." for path, _ in layers.values())
    within = {key for key, names in parameter_names.items() if all(name.startswith(prefixes) for name in names)}

    def cast(parameter: torch.Tensor) -> torch.Tensor:
        with paths.outside():
            return cast_parameter(parameter, policy)

    repeater = Repeater(recorder, layers, cast)

    def run(root: nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        values = [leaf for _, leaf in leaves]
        for i, tensor in zip(at, inputs, strict=True):
            values[i] = cast_input(tensor, policy)
        again_args, again_kwargs = pytree.tree_unflatten(values, spec)
        seen_by = {name: tensor if name in late else cast(tensor) for name, tensor in root.named_parameters()}
        seen_by.update(root.named_buffers())
        state = {place: seen_by[name] for place, name in held.items()}
        # The metadata pass and the recording pass both come through here; the last one counts.
        recorder.clear()
        repeater.clear()
        paths.stack[:], paths.again = [""], False
        # Libraries ask torch.compiler.is_compiling() before they look at the values of a tensor.
        with FusedOps(attention, paths.observe), torch.compiler._compile_session_context():
            result = call_with(model, state, again_args, again_kwargs)
        outputs = tensors_in(result)
        seen["outputs"] = tuple(name for name, _ in outputs)
        seen["result"] = outline(result)
        if not outputs:
            raise TraceError(f"the model returns no tensor but {type(result).__name__}: nothing can be placed")
        return tuple(tensor for _, tensor in outputs)

    def export(functionalize: bool) -> Any:
        root = _Root(parameters, buffers, run)
        root.train(model.training)
        with contextlib.ExitStack() as stack:
            stack.enter_context(fake_mode)
            if torch.get_default_device().type != device:
                # Only then: it slows every call down.
                stack.enter_context(torch.device(device))
            stack.enter_context(paths.watching(model))
            stack.enter_context(recording(recorder))
            late.clear()
            if not functionalize:
                late.update(within)
                stack.enter_context(repeater.watching())
            stack.enter_context(_quiet())
            return aot_export_joint_with_descriptors(
                stack,
                root,
                tensors,
                # Without functionalisation a trace takes a quarter less; it is needed only where something is changed
                # in place, which the graph then shows.
                disable_functionalization=not functionalize,
                _disable_torch_fn_metadata_mode=True,
            )

    try:
        joint = export(functionalize=bool(buffers) and model.training and _changes_buffers(model))
        if any(_in_place(node) for node in joint.graph_module.graph.nodes):
            joint = export(functionalize=True)
        if policy is not None and late:
            _check_use(joint.graph_module.graph, late)
    except (TraceError, UnrepeatableError):
        raise
    except Exception as error:
        raise explain_failure(error, paths.failed or paths.current) from error
    slots = iter(range(len(at)))
    taken = tuple(Slot(next(slots)) if isinstance(leaf, torch.Tensor) else leaf for _, leaf in leaves)
    return Capture(
        joint,
        parameter_names,
        buffer_names,
        input_names,
        seen["outputs"],
        recorder,
        batch,
        Arguments(spec, taken, input_names),
        seen["result"],
    )


def _copies(
    named: Iterator[tuple[str, torch.Tensor]], prefix: str, fake_mode: FakeTensorMode, device: str
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Data-free copies by names without dots, and the names that each has in the model (several when tied)."""
    groups: dict[int, tuple[torch.Tensor, list[str]]] = {}
    for name, tensor in named:
        groups.setdefault(id(tensor), (tensor, []))[1].append(name)
    copies: dict[str, Any] = {}
    names: dict[str, tuple[str, ...]] = {}
    with fake_mode:
        for position, (tensor, tied) in enumerate(groups.values()):
            copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
            key = f"{prefix}{position}"
            copies[key] = nn.Parameter(copy, requires_grad=tensor.requires_grad) if prefix == "p" else copy
            names[key] = tuple(tied)
    return copies, names


def _batch(tensors: list[torch.Tensor], fake_mode: FakeTensorMode) -> Batch:
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    sized = [tensor for tensor in tensors if tensor.dim() > 0]
    if not sized:
        raise TraceError("dynamic_batch=True needs an input with a dimension: the first of them is the batch")
    size = sized[0].shape[0]
    env = fake_mode.shape_env
    assert env is not None
    # Sizes 0 and 1 are special-cased by torch; any other stands for all.
    hint = max(size, 2)
    symbol = env.create_symbol(hint, ConstantSource("batch"), DimDynamic.DYNAMIC, do_not_specialize_zero_one=True)
    return Batch(size, symbol, env)


def _empty(tensor: torch.Tensor, fake_mode: FakeTensorMode, device: str, batch: Batch | None) -> torch.Tensor:
    """An input without data."""
    with fake_mode:
        if batch is not None and tensor.dim() > 0 and tensor.shape[0] == batch.size:
            first = batch.shape_env.create_symintnode(batch.symbol, hint=max(batch.size, 2), source=None)
            copy = torch.empty((first, *tensor.shape[1:]), dtype=tensor.dtype, device=device)
        else:
            copy = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)
        return copy.requires_grad_(tensor.requires_grad) if tensor.requires_grad else copy


def _input_name(path: tuple[Any, ...]) -> str:
    """``input_ids``, ``args[0]``, ``batch['x'][1]``: how the caller would write it."""
    which, *rest = path
    if getattr(which, "idx", 0) == 1 and rest:
        return str(getattr(rest[0], "key", rest[0])) + pytree.keystr(tuple(rest[1:]))
    return "args" + pytree.keystr(tuple(rest))


def _changes_buffers(model: nn.Module) -> bool:
    """Whether the model is known to change buffers, so that the cheaper trace need not be tried first."""
    return any(isinstance(m, nn.modules.batchnorm._NormBase) and m.track_running_stats for m in model.modules())


def _in_place(node: torch.fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _check_use(graph: torch.fx.Graph, late: set[str]) -> None:
    """Parameters that a layer casts may be used by nothing else, which would see them as they are stored."""
    casts = (torch.ops.aten._to_copy.default, torch.ops.aten.view.default)
    for node in graph.find_nodes(op="placeholder"):
        if getattr(node.meta.get("desc"), "target", None) not in late:
            continue
        for user in node.users:
            target = user.target
            if not (isinstance(target, torch._ops.OpOverload) and (target.namespace == "berthage" or target in casts)):
                raise UnrepeatableError(f"a parameter of a layer is used by {user}, outside it")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Torch logs what it then raises; the raised error says it better."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)
