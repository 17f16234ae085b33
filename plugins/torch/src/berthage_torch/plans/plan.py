"""A plan: where every tensor of a training step lives, what each step of it costs, and how good it is."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from berthage import InvalidProblemError
from berthage.files import atomic_write

from .costs import Collective, CostRow, breakdown, collectives
from .placed import PlannedEdge, PlannedNode, Step

__all__ = ["Change", "Plan"]

FORMAT_VERSION = 2


@dataclass(frozen=True, slots=True)
class Change:
    """A node that two plans place differently (None where a plan does not have it)."""

    name: str
    before: PlannedNode | None
    after: PlannedNode | None


@dataclass(frozen=True)
class Plan:
    """A placement of a whole training step. Immutable.

    Attributes:
        model: Name of the model.
        mesh: Sizes of the mesh dimensions by name, in order.
        cost_model: Name of the cost model and the key of everything its prices depend on.
        solver: Name of the solver.
        termination: Why it stopped.
        objective: Predicted time of a step, microseconds: all compute and all moves.
        bound: No placement under the same demands takes less, -inf when nothing is proved.
        nodes: Every node, in order.
        edges: Every move between them, in order; the sum of their prices and of all compute is the objective.
        graph_key: Digest of the traced step.
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
        """The objective by phase, kind (compute, collectives, local steps, transitions) and mesh dimension."""
        return breakdown(self.nodes, self.edges)

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

    def diff(self, other: Plan) -> tuple[Change, ...]:
        """The nodes that another plan places differently, and those only one of them has."""
        mine = {node.name: node for node in self.nodes}
        theirs = {node.name: node for node in other.nodes}
        changes = []
        for name in dict.fromkeys((*mine, *theirs)):
            a, b = mine.get(name), theirs.get(name)
            if a is None or b is None or (a.inputs, a.outputs) != (b.inputs, b.outputs):
                changes.append(Change(name, a, b))
        return tuple(changes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON, atomically."""
        document = {
            "format": "berthage-plan",
            "format_version": FORMAT_VERSION,
            "placement_hash": self.placement_hash(),
        }
        document |= {
            field.name: getattr(self, field.name) for field in fields(self) if field.name not in ("nodes", "edges")
        }
        document["mesh"] = dict(self.mesh)
        document["bound"] = self.bound if math.isfinite(self.bound) else None
        lines = [f"  {json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in document.items()]
        for key, items in (("nodes", self.nodes), ("edges", self.edges)):
            rows = ",\n    ".join(json.dumps(asdict(item), allow_nan=False) for item in items)
            lines.append(f'  "{key}": [\n    {rows}\n  ]')
        with atomic_write(path) as stream:
            stream.write(("{\n" + ",\n".join(lines) + "\n}\n").encode())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Read a plan.

        Raises:
            InvalidProblemError: The file is no plan, of a newer version, or was changed by hand: its placements do not
                have the hash it states.
        """
        where = os.fspath(path)
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            if document.get("format") != "berthage-plan" or document.get("format_version") != FORMAT_VERSION:
                raise InvalidProblemError(f"{where}: not a plan of format version {FORMAT_VERSION}")
            plan = _decode(document)
        except InvalidProblemError:
            raise
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidProblemError(f"{where}: not a plan: {type(error).__name__}: {error}") from None
        if plan.placement_hash() != document.get("placement_hash"):
            raise InvalidProblemError(
                f"{where}: its placements do not have the hash it states; it was changed or damaged"
            )
        return plan


def _decode(document: Mapping[str, Any]) -> Plan:
    nodes = tuple(
        PlannedNode(**{**row, "inputs": tuple(row["inputs"]), "outputs": tuple(row["outputs"])})
        for row in document["nodes"]
    )
    edges = tuple(
        PlannedEdge(**{**row, "path": tuple(Step(*step) for step in row["path"])}) for row in document["edges"]
    )
    bound = document["bound"]
    return Plan(
        model=str(document["model"]),
        mesh={str(name): int(size) for name, size in document["mesh"].items()},
        cost_model=(str(document["cost_model"][0]), str(document["cost_model"][1])),
        solver=str(document["solver"]),
        termination=str(document["termination"]),
        objective=float(document["objective"]),
        bound=-math.inf if bound is None else float(bound),
        nodes=nodes,
        edges=edges,
        graph_key=str(document["graph_key"]),
    )
