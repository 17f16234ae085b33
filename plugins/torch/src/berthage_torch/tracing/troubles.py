"""Why a trace failed, in words: which operation in which module, and the way out."""

from __future__ import annotations

import re

from torch._subclasses import fake_tensor

from berthage_torch.errors import TraceError

__all__ = ["explain_failure"]

_CONTROL = (
    "the values of a tensor decide what happens next, and a trace has no values. Replace the branch by torch.where or "
    "a mask, or pass the decision as a plain Python argument"
)
_SHAPE = (
    "the shape of its result depends on the values of a tensor, and a trace has no values. Use a form with a fixed "
    "shape: a mask instead of indexing by booleans, a capacity instead of a count, torch.where with three arguments"
)
_KERNEL = (
    "torch has no kernel for it on tensors without data. Register one (torch.library.register_fake), or pass another "
    "device=, or attention='math' if it is an attention kernel"
)
_DEVICE = (
    "a tensor lies on another device than the trace. Tensors that the model keeps must be buffers (register_buffer), "
    "and tensors that it makes must say device=x.device"
)


def explain_failure(error: Exception, path: str) -> TraceError:
    """The error to raise instead of what torch raised while the module ``path`` ran."""
    op = _operation(error)
    text = str(error).strip().split("\n")[0]
    kind = type(error).__name__
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        advice = _SHAPE
    elif isinstance(error, fake_tensor.DataDependentOutputException) or "DataDependent" in kind:
        advice = _CONTROL
    elif isinstance(error, (fake_tensor.UnsupportedOperatorException, NotImplementedError)):
        advice = _KERNEL
    elif re.search(r"device", text) and re.search(r"meta|cpu|cuda", text) and isinstance(error, RuntimeError):
        advice = _DEVICE
    else:
        advice = "the module failed on tensors without data as it would on real ones of these shapes"
    where = f"module {path!r}" if path else "the model itself"
    what = f"{op} in {where}" if op else where
    return TraceError(f"cannot trace {what}: {advice} ({kind}: {text[:300]})", op=op, path=path)


def _operation(error: Exception) -> str:
    func = getattr(error, "func", None)
    text = str(func) if func is not None else str(error)
    found = re.search(r"\b(?:aten|prims|prim|[a-z_]\w*)\.\w+\.\w+\b|\baten[.:]+\w+", text)
    return found.group(0) if found else ""
