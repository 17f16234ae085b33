"""How a plan was made: everything but the placements, kept apart from them, so that its problem can be made again."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from berthage import InvalidProblemError, SolveParams

if TYPE_CHECKING:
    from berthage_torch.graph import OpGraph
    from berthage_torch.policy import MixedPrecision
    from berthage_torch.searching.constraints import Constraints

__all__ = [
    "InputShape",
    "Origin",
    "Settings",
    "constraints_document",
    "constraints_of",
    "effort_document",
    "inputs_of",
    "parameters_of",
    "plain",
    "policy_document",
    "policy_of",
]

Document = Mapping[str, Any]


def _nothing() -> Document:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class InputShape:
    """An input or parameter of the step: its name in the graph, its global shape and its dtype."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What made the model.

    Attributes:
        name: A model of the zoo, or ``"package.module:function"``; "" for a module that was handed over.
        sizes: The zoo model's sizes, or the function's arguments as they were written.
    """

    name: str = ""
    sizes: Document = field(default_factory=_nothing)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a search was asked besides model, mesh, cost model and solver, which a plan names itself. JSON values only.

    Attributes:
        origin: What made the model.
        inputs: The inputs.
        parameters: The parameters.
        cost_model: Name or file that the cost model was asked by; "" when the model itself was handed over.
        policy: Mixed precision, see `policy_document`; None without.
        tie: Which nodes decide together, see `fold`.
        constraints: The demands, see `Constraints`.
        solver_version: Version of the solver.
        options: The solver's own options.
        effort: Limits, gap, seed and threads, and which reductions ran.
        seeding: What was searched near which seed, and what was proved there; None where no seed was made.
    """

    origin: Origin = field(default_factory=Origin)
    inputs: tuple[InputShape, ...] = ()
    parameters: tuple[InputShape, ...] = ()
    cost_model: str = ""
    policy: Document | None = None
    tie: Any = "layers"
    constraints: Document = field(default_factory=_nothing)
    solver_version: str = ""
    options: Document = field(default_factory=_nothing)
    effort: Document = field(default_factory=_nothing)
    seeding: Document | None = None

    @property
    def params(self) -> SolveParams:
        """Limits, gap, seed and threads as `berthage.solve` takes them."""
        known = {name: _tuples(value) for name, value in self.effort.items() if name in _EFFORT}
        return SolveParams(**known)

    @property
    def presolve(self) -> bool | tuple[str, ...]:
        """The reductions as `berthage.solve` takes them."""
        chosen = self.effort.get("presolve", True)
        return chosen if isinstance(chosen, bool) else tuple(map(str, chosen))


_EFFORT = ("time_limit", "iteration_limit", "gap", "cutoff", "seed", "threads")


def effort_document(params: SolveParams | None, presolve: bool | tuple[str, ...]) -> dict[str, Any]:
    """What a solve was told, as JSON."""
    params = params or SolveParams()
    return {name: plain(getattr(params, name)) for name in _EFFORT} | {"presolve": plain(presolve)}


def inputs_of(graph: OpGraph) -> tuple[InputShape, ...]:
    """The tensor inputs of a graph."""
    return _shapes(graph, graph.inputs)


def parameters_of(graph: OpGraph) -> tuple[InputShape, ...]:
    """The parameters of a graph; tied ones once."""
    return _shapes(graph, dict.fromkeys(graph.parameters.values()))


def _shapes(graph: OpGraph, indices: Iterable[int]) -> tuple[InputShape, ...]:
    found = []
    for index in indices:
        node = graph.nodes[index]
        meta = node.outputs[0]
        assert meta is not None  # an input or parameter has a value
        found.append(InputShape(node.name, meta.shape, meta.dtype))
    return tuple(found)


def policy_document(policy: MixedPrecision | None) -> dict[str, Any] | None:
    """Mixed precision as JSON: dtypes by name."""
    if policy is None:
        return None
    from berthage_torch.policy import dtype_name

    values = {each.name: getattr(policy, each.name) for each in dataclasses.fields(policy)}
    return {
        name: dtype_name(value) if name.endswith("_dtype") and value is not None else value
        for name, value in values.items()
    }


def policy_of(document: Document | None) -> MixedPrecision | None:
    """The same back.

    Raises:
        InvalidProblemError: It is no mixed precision.
    """
    if document is None:
        return None
    from berthage_torch.policy import MixedPrecision, torch_dtype

    try:
        values: dict[str, Any] = {
            name: torch_dtype(value) if name.endswith("_dtype") and value is not None else value
            for name, value in document.items()
        }
        return MixedPrecision(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidProblemError(f"the plan's mixed precision cannot be read: {error}; search it again") from None


def constraints_document(constraints: Constraints) -> dict[str, Any]:
    """Demands as JSON."""
    return {each.name: plain(getattr(constraints, each.name)) for each in dataclasses.fields(constraints)}


def constraints_of(document: Document) -> Constraints:
    """The same back.

    Raises:
        InvalidProblemError: These are no demands.
    """
    from berthage_torch.searching.constraints import Constraints

    try:
        return Constraints(**{name: _tuples(value) for name, value in document.items()})
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidProblemError(f"the plan's constraints cannot be read: {error}; search it again") from None


def _tuples(value: Any) -> Any:
    """Lists as tuples and the words of infinities as numbers, all the way down."""
    if isinstance(value, list):
        return tuple(map(_tuples, value))
    if isinstance(value, Mapping):
        return {name: _tuples(item) for name, item in value.items()}
    return float(value) if value in ("inf", "-inf") else value


def plain(value: Any) -> Any:
    """``value`` as JSON gives it back: tuples are lists, infinities words, what JSON has no word for text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if hasattr(value, "tolist"):  # a numpy number or array
        return plain(value.tolist())
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
