"""GAP: generalised assignment problems as the OR-library and its followers write them.

``m n``, then m rows of n costs, m rows of n resource demands, and m capacities. Every job is done by one
agent; the demands of an agent's jobs stay within its capacity; the total cost is least. The files have no
ending.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from berthage import LabelSet, PlacementProblem, ProblemBuilder
from berthage_formats.options import ReadLimits, make_options
from berthage_formats.streams import StrPath, bare_name, read_bytes
from berthage_formats.tables import CellCount
from berthage_formats.tokens import EXACT_FLOAT, Tokens

__all__ = ["GapFormat"]


class GapFormat:
    """Reads generalised assignment problems (minimisation)."""

    def read(self, path: StrPath, **options: Any) -> PlacementProblem:
        """Read a problem: variables ``job0`` on, labels ``agent0`` on, budgets ``capacity of agent0`` on.

        Args:
            path: The file, perhaps compressed.
            options: See :class:`~berthage_formats.options.ReadLimits`.

        Raises:
            InvalidProblemError: The file is damaged; the message gives the line and what was expected.
        """
        limits = make_options(ReadLimits, options)
        tokens = Tokens(read_bytes(path, limits.max_bytes), str(path))
        agents = tokens.integer(0, "the number of agents, at least 1", 1)
        jobs = tokens.integer(1, "the number of jobs, at least 1", 1)
        cells = agents * jobs
        expected = 2 + 2 * cells + agents
        if len(tokens) != expected:
            raise tokens.error(
                min(expected, len(tokens)),
                f"{expected} numbers in all (2 sizes, {agents} x {jobs} costs, as many demands, capacities)",
            )
        CellCount(limits.max_cells, tokens.source).add(cells * agents, "the capacities")
        values = tokens.floats(2, expected, "a number")
        bad = np.flatnonzero(~(np.abs(values) < EXACT_FLOAT))
        if bad.size:
            raise tokens.error(2 + int(bad[0]), "a number below 2^53")
        costs = values[:cells].reshape(agents, jobs)
        demands = values[cells : 2 * cells].reshape(agents, jobs)
        builder = ProblemBuilder(bare_name(path))
        labels = LabelSet.of([f"agent{a}" for a in range(agents)])
        for job in range(jobs):
            builder.add_variable(f"job{job}", labels, costs[:, job])
        for agent, capacity in enumerate(values[2 * cells :].tolist()):
            weights = np.zeros((jobs, agents))
            weights[:, agent] = demands[agent]
            upper = int(capacity) if float(capacity).is_integer() else capacity
            rows: dict[int | str, npt.ArrayLike] = {job: weights[job] for job in range(jobs)}
            builder.add_budget(f"capacity of agent{agent}", rows, upper=upper)
        return builder.build()
