"""Shortest paths on the placement lattice: exact, deterministic, and vectorised over all states.

Prices are rounded up to multiples of 2^-16 µs and every move carries 2^-22 µs more, which counts moves among paths of
equal price. Up to 2^31 µs such sums are exact in float64, so the triangle inequality holds without any tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from berthage_nccl.moves import Lattice, Pricer, dim_moves
from berthage_nccl.placements import is_partial, is_shard

__all__ = ["Move", "PathTable"]

_QUANTUM: Final = 2.0**16
_HOP: Final = 2.0**-22
_CHUNK: Final = 2**15  # numbers relaxed together: they and their copies stay in the cache
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a redistribution.

    Attributes:
        kind: ``all-gather``, ``reduce-scatter``, ``all-reduce``, ``all-to-all``; local ones: ``slice`` (R to S),
            ``partition`` (R to P), ``relabel`` (on a mesh dimension of one rank).
        mesh_dim: The mesh dimension that changes.
        before: Codes before, one per mesh dimension.
        after: Codes after.
        bytes: Size of the collective as nccl-tests counts it, or bytes that a local move writes.
        us: Price, copies for packing included. Over a path these add up to the price of the redistribution.
    """

    kind: str
    mesh_dim: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int
    us: float


class PathTable:
    """All shortest paths of one tensor on one mesh; rows are computed when they are first asked for.

    Args:
        lattice: The states.
        pricer: Prices of collectives and copies.

    Attributes:
        runs: Shortest-path runs made so far: one for each source, and for each landmark of `bounds` two.
    """

    def __init__(self, lattice: Lattice, pricer: Pricer) -> None:
        self.lattice = lattice
        self._copy = pricer.copy
        self._moves = [dim_moves(lattice, dim, pricer) for dim in range(len(lattice.sizes))]
        self._steps = [_exact(moves.us) for moves in self._moves]
        self._closed = [np.ascontiguousarray(_closure(steps).transpose(0, 2, 1, 3)) for steps in self._steps]
        self._rows: dict[bool, _Rows] = {True: _Rows(lattice.states), False: _Rows(lattice.states)}
        self._landmarks: tuple[Floats, Floats] | None = None
        self.runs = 0

    def prices(self, sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], contiguous: bool) -> Floats:
        """``float64[S, T]`` microseconds between states."""
        rows = self._rows[contiguous].get(sources, lambda wanted: self._solve(wanted, contiguous))
        return np.asarray(np.floor(rows[:, targets] * _QUANTUM) / _QUANTUM, dtype=np.float64)

    def pairs(self, sources: Ints, targets: Ints, contiguous: bool) -> Floats:
        """``float64[N]`` microseconds of N pairs of states; solves the rows of their sources only."""
        unique, which = np.unique(sources, return_inverse=True)
        rows = self._rows[contiguous].get(unique, lambda wanted: self._solve(wanted, contiguous))
        return np.asarray(np.floor(rows[which, targets] * _QUANTUM) / _QUANTUM, dtype=np.float64)

    def bounds(self, sources: Ints, targets: Ints) -> Floats:
        """``float64[S, T]``: numbers that no price is below, contiguous or not, without solving the sources' rows.

        The larger of two bounds. Whatever else happens, every mesh dimension must come from its code to its new one,
        by moves that cost at least what they cost in the cheapest context. And by the triangle inequality a price is
        not below how much further the target is from a landmark than the source, nor below how much further the
        source is from being a landmark; the landmarks are the placements with one code on every mesh dimension.
        """
        q, dims = len(self.lattice.codes), len(self.lattice.sizes)
        rows, columns = (np.stack(np.unravel_index(states, (q,) * dims)) for states in (sources, targets))
        found = np.zeros((len(sources), len(targets)))
        for dim, steps in enumerate(self._steps):
            floor = _closure(steps.min(axis=(2, 3))[:, :, None, None])[:, :, 0, 0]
            found += floor[rows[dim][:, None], columns[dim][None]]
        found = np.floor(found * _QUANTUM) / _QUANTUM
        ahead, back = self._from_and_to_landmarks()
        for away in ahead:
            _raise_to(found, away[targets][None], away[sources][:, None])
        for away in back:
            _raise_to(found, away[sources][:, None], away[targets][None])
        return found

    def path(self, source: int, target: int, contiguous: bool) -> tuple[Move, ...]:
        """The moves of the cheapest path with the fewest moves; ties go to the lowest mesh dimension and code."""
        if source == target:
            return ()
        row = self._rows[contiguous].get(np.array([source]), lambda wanted: self._solve(wanted, contiguous))[0]
        first = self._first_steps(source) if not contiguous else None
        found: list[Move] = []
        at = target
        while at != source:
            if first is not None and first[at] == row[at]:
                dim = self._dim_between(source, at)
                found.append(self._move(dim, source, at, float(first[at])))
                break
            dim, before = self._predecessor(at, row)
            if dim < 0:
                break
            found.append(self._move(dim, before, at, float(row[at] - row[before])))
            at = before
        return tuple(reversed(found))

    # -- rows -------------------------------------------------------------------------------------

    def _from_and_to_landmarks(self) -> tuple[Floats, Floats]:
        """Prices from and to each landmark, ``float64[q, states]``."""
        if self._landmarks is None:
            q, dims = len(self.lattice.codes), len(self.lattice.sizes)
            marks = np.arange(q, dtype=np.int64) * ((q**dims - 1) // max(q - 1, 1))
            ahead = self._rows[True].get(marks, lambda wanted: self._solve(wanted, True))
            back = np.full((q, self.lattice.states), np.inf)
            back[np.arange(q), marks] = 0.0
            self._relax(back, [np.ascontiguousarray(closed.transpose(2, 1, 0, 3)) for closed in self._closed])
            self.runs += q
            self._landmarks = (np.floor(ahead * _QUANTUM) / _QUANTUM, np.floor(back * _QUANTUM) / _QUANTUM)
        return self._landmarks

    def _solve(self, sources: npt.NDArray[np.int64], contiguous: bool) -> Floats:
        states = self.lattice.states
        self.runs += len(sources)
        row = np.full((len(sources), states), np.inf)
        if contiguous:
            row[np.arange(len(sources)), sources] = 0.0
        else:
            for at, source in enumerate(sources.tolist()):
                row[at] = self._first_steps(source)
        chunk = max(1, _CHUNK // states)
        for start in range(0, len(sources), chunk):
            self._relax(row[start : start + chunk], self._closed)
        row[np.arange(len(sources)), sources] = 0.0
        return row

    def _relax(self, row: Floats, closed: list[Floats]) -> None:
        """Bring prices down to shortest paths, in place: one mesh dimension after the other, until none falls.

        ``closed[dim][a, before, b, after]`` is what coming from code a to code b costs.
        """
        q, dims = len(self.lattice.codes), len(self.lattice.sizes)
        trial = np.empty_like(row)
        while True:
            before = row.copy()
            for dim in range(dims):
                shape = (len(row), q**dim, q, q ** (dims - dim - 1))
                now, step = row.reshape(shape), trial.reshape(shape)
                old = now.copy()
                for a in range(q):
                    np.add(old[:, :, a : a + 1, :], closed[dim][a][None], out=step)
                    np.minimum(now, step, out=now)
            if np.array_equal(before, row):
                return

    def _first_steps(self, source: int) -> Floats:
        """Where one move leads from a tensor that is not contiguous: its local part is copied before."""
        q, dims = len(self.lattice.codes), len(self.lattice.sizes)
        found = np.full(self.lattice.states, np.inf)
        digits = np.unravel_index(source, (q,) * dims)
        copy = float(self._copy(np.array([2.0 * self.lattice.local_bytes(source)]))[0])
        for dim in range(dims):
            stride = q ** (dims - dim - 1)
            before, after = source // (stride * q), source % stride
            own = int(digits[dim])
            to = source + (np.arange(q) - own) * stride
            steps = self._moves[dim].us[own, :, before, after]
            # A slice copies its own part only, if it does not already.
            part = np.where(steps > 0, 0.0, self._copy(2 * self._moves[dim].bytes[own, :, before, after]))
            slices = np.array([own == 0 and is_shard(code) for code in self.lattice.codes])
            local = np.where(slices, part, copy) if self.lattice.sizes[dim] > 1 else 0.0
            others = np.arange(q) != own
            found[to[others]] = _exact(steps + local)[others]
        return found

    # -- paths ------------------------------------------------------------------------------------

    def _predecessor(self, at: int, row: Floats) -> tuple[int, int]:
        """The state before ``at``, and the mesh dimension that changes; -1 when nothing leads here."""
        q, dims = len(self.lattice.codes), len(self.lattice.sizes)
        digits = np.unravel_index(at, (q,) * dims)
        if not np.isfinite(row[at]):
            return -1, at
        for dim in range(dims):
            stride = q ** (dims - dim - 1)
            own = int(digits[dim])
            before, after = at // (stride * q), at % stride
            states = at + (np.arange(q) - own) * stride
            fits = row[states] + self._steps[dim][:, own, before, after] == row[at]
            fits[own] = False
            if fits.any():
                return dim, int(states[int(np.argmax(fits))])
        return -1, at

    def _dim_between(self, one: int, other: int) -> int:
        """The mesh dimension in which two neighbouring states differ."""
        return int(np.flatnonzero(self.lattice.placement(one) != self.lattice.placement(other))[0])

    def _move(self, dim: int, before: int, after: int, exact: float) -> Move:
        q, dims = len(self.lattice.codes), len(self.lattice.sizes)
        stride = q ** (dims - dim - 1)
        a, b = (state // stride % q for state in (before, after))
        size = self._moves[dim].bytes[a, b, before // (stride * q), before % stride]
        codes = self.lattice.codes
        kind = _kind(codes[a], codes[b]) if self.lattice.sizes[dim] > 1 else "relabel"
        return Move(
            kind,
            dim,
            tuple(self.lattice.placement(before).tolist()),
            tuple(self.lattice.placement(after).tolist()),
            int(size),
            float(np.floor(exact * _QUANTUM) / _QUANTUM),
        )


class _Rows:
    """Solved rows by source."""

    def __init__(self, states: int) -> None:
        self._place = np.full(states, -1, dtype=np.int64)
        self._rows: Floats = np.zeros((0, states))

    def get(self, sources: npt.NDArray[np.int64], solve: Callable[[npt.NDArray[np.int64]], Floats]) -> Floats:
        """The rows of these sources; the missing ones are solved together."""
        missing = np.unique(sources[self._place[sources] < 0])
        if len(missing):
            self._place[missing] = len(self._rows) + np.arange(len(missing))
            self._rows = np.concatenate([self._rows, solve(missing)])
        return np.asarray(self._rows[self._place[sources]], dtype=np.float64)


def _exact(us: Floats) -> Floats:
    """Prices on the grid, with the mark of one move."""
    return np.asarray(np.ceil(us * _QUANTUM) / _QUANTUM + _HOP, dtype=np.float64)


def _raise_to(found: Floats, longer: Floats, shorter: Floats) -> None:
    """Raise ``found`` to ``longer - shorter`` where that is larger, in place; ``shorter`` being inf says nothing."""
    if not np.isfinite(shorter).all():
        longer = np.where(np.isfinite(shorter), longer, -np.inf)
        shorter = np.where(np.isfinite(shorter), shorter, 0.0)
    np.maximum(found, longer - shorter, out=found)


def _closure(steps: Floats) -> Floats:
    """Cheapest ways between the codes of one mesh dimension when the others stay as they are."""
    q = steps.shape[0]
    closed = steps.copy()
    closed[np.arange(q), np.arange(q)] = 0.0
    for k in range(q):
        np.minimum(closed, closed[:, k : k + 1] + closed[k : k + 1], out=closed)
    return closed


def _kind(source: int, target: int) -> str:
    if is_partial(source):
        return "reduce-scatter" if is_shard(target) else "all-reduce"
    if is_shard(source):
        return "all-to-all" if is_shard(target) else "all-gather"
    return "slice" if is_shard(target) else "partition"
