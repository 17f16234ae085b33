"""The hooks that plugins implement; this page is the plugin tutorial.

A plugin is a distribution with one light module, by habit ``hooks.py``, named in its
``pyproject.toml``:

.. code-block:: toml

    [project.entry-points.berthage]
    mine = "my_package.hooks"

The module imports nothing but :mod:`berthage` and the standard library. It implements the hooks
that it has something to say to, each marked with :data:`berthage.hookimpl`:

.. code-block:: python

    from berthage import Capability, SolverInfo, hookimpl

    @hookimpl
    def berthage_solvers():
        return [
            SolverInfo(
                name="my-solver",
                summary="Greedy, then luck.",
                target="my_package.solver:MySolver",
                capabilities=frozenset({Capability.ANYTIME}),
            )
        ]

That is all: ``berthage solvers`` lists ``my-solver`` and ``solve(problem, "my-solver")`` runs it.
A hook that does not exist is an error naming plugin and hook, so a spelling mistake is not
silent. A plugin that fails is listed by ``berthage plugins`` with the reason and hurts no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berthage.registry.descriptions import (
        CommandInfo,
        CostModelInfo,
        FormatInfo,
        FrontEndInfo,
        ReductionInfo,
        SeederInfo,
        SolverInfo,
    )
    from berthage.solving.params import Progress

PROJECT: Final = "berthage"
hookspec: Final = pluggy.HookspecMarker(PROJECT)
hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""Marks a function as the implementation of the hook that has its name."""


@hookspec
def berthage_solvers() -> Sequence[SolverInfo]:
    """Solvers.

    ``target()`` makes a fresh object for every solve, with one method::

        def solve(self, problem, params, options, context) -> SolverOutcome

    ``options`` is an instance of the dataclass named in the description (None if it names none),
    already checked. Poll ``context.stop_reason()``, hand every improvement to
    ``context.incumbent(assignment)`` and every bound to ``context.bound(value)``. Core evaluates
    what comes back; nothing is believed.
    """
    raise NotImplementedError


@hookspec
def berthage_reductions() -> Sequence[ReductionInfo]:
    """Reductions, run before any solver in increasing ``order``.

    ``target()`` makes an object with ``reduce(problem, context) -> Reduced``, which carries the
    smaller problems and the exact way back for assignments and bounds.
    """
    raise NotImplementedError


@hookspec
def berthage_formats() -> Sequence[FormatInfo]:
    """File formats.

    ``target()`` makes an object with any of these, as the description says::

        def read(self, path, **options) -> PlacementProblem
        def write(self, problem, path, **options) -> None
        def read_solution(self, path, problem) -> assignment
        def write_solution(self, path, problem, assignment) -> None

    Broken files raise :class:`berthage.InvalidProblemError` saying where and what was expected.
    """
    raise NotImplementedError


@hookspec
def berthage_seeders() -> Sequence[SeederInfo]:
    """Seeders: ways to propose where to search.

    ``target()`` makes a fresh object for every seed, with one method::

        def seed(self, problem, params, options, registry) -> Seed

    ``params`` are those of a solve, ``options`` as for solvers; other solvers are looked up in
    ``registry``. `berthage.seeding` has `Seed`, and what is done with one. A problem that the seeder
    cannot say anything about raises :class:`berthage.UnsupportedProblemError`.
    """
    raise NotImplementedError


@hookspec
def berthage_cost_models() -> Sequence[CostModelInfo]:
    """Cost models: prices of compute and of collectives, in microseconds."""
    raise NotImplementedError


@hookspec
def berthage_front_ends() -> Sequence[FrontEndInfo]:
    """Front ends: ways from a model of some framework to a placement problem and back."""
    raise NotImplementedError


@hookspec
def berthage_commands() -> Sequence[CommandInfo]:
    """Subcommands of ``berthage``. ``target`` is a ``click.Command``, imported when it runs."""
    raise NotImplementedError


@hookspec
def berthage_solve_started(event: Progress) -> None:
    """Observe that a solve starts. What an observer raises becomes a warning."""


@hookspec
def berthage_incumbent(event: Progress) -> None:
    """Observe that a better feasible assignment was found."""


@hookspec
def berthage_bound(event: Progress) -> None:
    """Observe that the lower bound rose."""


@hookspec
def berthage_solve_finished(event: Progress) -> None:
    """Observe that a solve ended."""
