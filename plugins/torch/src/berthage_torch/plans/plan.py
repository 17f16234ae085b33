"""A plan: where every tensor of a training step lives, what each step of it costs, and how good it is."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from berthage import InvalidProblemError
from berthage.files import atomic_write

from .comparing import Difference, compare
from .costs import Collective, CostRow, breakdown, collectives
from .document import dumps, loads
from .placed import PlannedEdge, PlannedNode
from .settings import Settings, constraints_of

if TYPE_CHECKING:
    from torch import nn
    from torch.distributed.device_mesh import DeviceMesh

    from berthage_torch.applying.module import ParallelModule
    from berthage_torch.searching.building import BuiltProblem
    from berthage_torch.searching.constraints import Constraints
    from berthage_torch.searching.run import SearchResult

    from .explaining import Explanation
    from .repricing import Repriced

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """A placement of a whole training step. Immutable.

    Attributes:
        model: Name of the model.
        mesh: Sizes of the mesh dimensions by name, in order.
        cost_model: Name of the cost model and the key of everything its prices depend on.
        solver: Name of the solver.
        termination: Why it stopped.
        objective: Predicted time of a step, microseconds: all compute and all moves, and `penalty_us`.
        bound: No placement under the same demands takes less, -inf when nothing is proved.
        nodes: Every node, in order.
        edges: Every move between them, in order; the sum of their prices and of all compute is the objective.
        graph_key: Digest of the traced step.
        penalty_us: What demands with a price that are not met add to the objective, microseconds.
        settings: What else the search was asked, so that its problem can be made again.
    """

    model: str
    mesh: Mapping[str, int]
    cost_model: tuple[str, str]
    solver: str
    termination: str
    objective: float
    bound: float
    nodes: tuple[PlannedNode, ...]
    edges: tuple[PlannedEdge, ...]
    graph_key: str
    penalty_us: float = 0.0
    settings: Settings = field(default_factory=Settings)

    @property
    def constraints(self) -> Constraints:
        """The demands it was searched under."""
        return constraints_of(self.settings.constraints)

    @property
    def compute_us(self) -> float:
        """Microseconds of compute."""
        return math.fsum(node.compute_us for node in self.nodes)

    @property
    def communication_us(self) -> float:
        """Microseconds of moves."""
        return math.fsum(edge.us for edge in self.edges)

    @property
    def relative_gap(self) -> float:
        """How far above the least possible the objective may be, as a share of it."""
        if not math.isfinite(self.bound):
            return math.inf
        return max(0.0, self.objective - self.bound) / max(1.0, abs(self.objective))

    def collectives(self) -> tuple[Collective, ...]:
        """The collectives that will run: kind, mesh dimension, bytes, whose tensor, for whom, and when."""
        return collectives(self.nodes, self.edges)

    def costs(self) -> tuple[CostRow, ...]:
        """The objective by phase, kind (compute, collectives, local steps, transitions) and mesh dimension.

        What demands with a price add is a row of its own, ``penalty``.
        """
        penalty = (CostRow("", "penalty", "", 1, 0, self.penalty_us),) if self.penalty_us else ()
        return breakdown(self.nodes, self.edges) + penalty

    def placement_hash(self) -> str:
        """Hex digest of the placements alone: equal plans have equal hashes, whatever they were priced with."""
        digest = hashlib.sha256(b"berthage placements 1\n")
        digest.update(repr(tuple(self.mesh.items())).encode())
        for node in self.nodes:
            digest.update(repr((node.name, node.inputs, node.outputs)).encode())
        for edge in self.edges:
            digest.update(repr((edge.producer, edge.output, edge.consumer, edge.position, edge.after)).encode())
        return digest.hexdigest()

    def node(self, name: str) -> PlannedNode:
        """The node called ``name``, or whose parameter, input or output is.

        Raises:
            InvalidProblemError: There is none.
        """
        for asked in ("name", "fqn"):
            for node in self.nodes:
                if getattr(node, asked) == name:
                    return node
        raise InvalidProblemError(f"the plan of {self.model} has no node or parameter {name!r}")

    def multiplicity(self, name: str) -> int:
        """How many nodes decided together with this one, itself included: the copies of its layer."""
        group = self.node(name).group
        return sum(node.group == group for node in self.nodes)

    def diff(self, other: Plan) -> Difference:
        """What another plan does otherwise: placements and costs, by node and in total.

        Raises:
            InvalidProblemError: The plans are of models that have nothing in common.
        """
        return compare(self, other)

    def explain(
        self,
        name: str,
        *,
        against: str | Sequence[str] = (),
        runner_up: bool = True,
        problem: SearchResult | BuiltProblem | None = None,
        time_limit: float | None = None,
        **model: Any,
    ) -> Explanation:
        """Say what a node does and costs, and what placing it otherwise would cost, alone and downstream.

        Alone is with all else kept; downstream, the best plan that places the node so, found by the plan's own solver.

        Args:
            name: A node, or a parameter, input or output.
            against: Placements to be told about: of its first output (``"S(0)R"``; of the first argument where it has
                none), or whole strategies (``"S(0)R, RS(1) -> S(0)S(1)"``).
            runner_up: Whether to find the best plan that places it otherwise.
            problem: What `run_search` found, or its problem; None traces the model and makes the problem again, unless
                neither ``against`` nor ``runner_up`` asks for it.
            time_limit: Wall seconds for each plan that is searched; None for that of the plan.
            model: ``model``, ``inputs`` and ``cost_model`` as `retrace` takes them, for plans that do not say how their
                model is made.

        Raises:
            InvalidProblemError: No such node or placement; the problem cannot be made again, or is not this plan's.
        """
        from .explaining import explain

        return explain(
            self, name, against=against, runner_up=runner_up, problem=problem, time_limit=time_limit, **model
        )

    def reprice(self, **changes: Any) -> Repriced:
        """The same placements at other shapes or by another cost model: new costs, what changed, what cannot be.

        Args:
            changes: Any of ``sizes`` (of a zoo model: ``{"sequence": 512}``), ``model`` and ``inputs``, ``cost_model``,
                as `retrace` takes them.

        Raises:
            InvalidProblemError: The model is another than the plan's, or cannot be made again.
        """
        from .repricing import reprice

        return reprice(self, **changes)

    def apply(
        self, model: nn.Module, inputs: Any = None, *, device_mesh: DeviceMesh | None = None, **settings: Any
    ) -> ParallelModule:
        """A module that runs ``model`` as this plan says; see `berthage_torch.apply_plan`, which takes the same.

        Raises:
            ApplyError: The plan is for another mesh, model or shape; the message names the difference.
        """
        from berthage_torch.applying.module import apply_plan

        return apply_plan(self, model, inputs, device_mesh=device_mesh, **settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, atomically."""
        with atomic_write(path) as stream:
            stream.write(self.to_json().encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Read a plan. Nothing that the file names is run or opened.

        Raises:
            InvalidProblemError: The file is no plan; see `from_json`.
        """
        try:
            return Plan.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidProblemError(f"{os.fspath(path)}: not a plan: {error}") from None
        except InvalidProblemError as error:
            raise InvalidProblemError(f"{os.fspath(path)}: {error}") from None

    def to_json(self) -> str:
        """The text of the plan's file: the same for equal plans, on every machine."""
        return dumps(self)

    @staticmethod
    def from_json(text: str) -> Plan:
        """The plan that a text says. Nothing that it names is run or opened.

        Raises:
            InvalidProblemError: The text is no plan, of another version, or was changed by hand: its placements do not
                have the hash it states, or its costs do not add up to its objective.
        """
        fields, stated = loads(text)
        plan = Plan(**fields)
        if plan.placement_hash() != stated:
            raise InvalidProblemError("its placements do not have the hash it states; it was changed or damaged")
        return plan

    def __hash__(self) -> int:
        """Equal for equal plans; the mappings in a plan have no hash of their own."""
        return hash((self.graph_key, self.objective, self.nodes, self.edges))

    def __reduce__(self) -> tuple[Callable[[str], Plan], tuple[str]]:
        """A plan is copied and sent to other processes as its text."""
        return Plan.from_json, (self.to_json(),)
