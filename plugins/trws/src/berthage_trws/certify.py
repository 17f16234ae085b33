"""The bound that is reported: valid for the true costs whatever the messages are and however they were rounded."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np

from .jit import kernel

_0 = np.uint64(0)
_1 = np.uint64(1)
_P = np.uint64(8)
_NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_EPS = 2.0**-52


@kernel
def certified_bound(exact, unary, magnitude, messages, hat, size, own, other):
    """A lower bound on every assignment, from any messages, with every rounding error charged against it.

    One descending sweep in float64 on the true tables (``inf`` included), in which nothing is normalised: for any
    messages ``m`` the cost of an assignment is the sum of node costs ``hat_i = unary_i + Σ m`` and of edge costs
    ``V - m - m``. Each node's least cost ``c_i`` is taken out; a share ``γ_i (hat_i - c_i)`` of the rest goes to each
    edge down to an earlier node (there are at most ``1/γ_i`` of them), and the new message over that edge is chosen
    such that nothing below zero is left there. The bound is ``Σ c_i`` (Kolmogorov 2006, section 4). Each number is
    rounded down by more than its floating-point error. ``inf``: no assignment is allowed.

    Args:
        exact: The :class:`~berthage_trws.layout.Exact` costs.
        unary: float64 costs of the labels kept.
        magnitude: Sums of the absolute values that each unary cost was made of.
        messages: float64 incoming messages; those to earlier nodes are replaced.
        hat: float64 scratch, as long as the longest padded vector, as are the rest.
        size: Scratch.
        own: Scratch.
        other: Scratch.
    """
    total, lost, absolute = 0.0, 0.0, 0.0
    n = np.uint64(len(exact.labels))
    for position in range(n):
        i = n - _1 - position
        count, start = exact.labels[i], exact.label_ptr[i]
        low, middle, high = exact.half_ptr[i], exact.half_mid[i], exact.half_ptr[i + _1]
        width = (count + _P - _1) // _P * _P
        for k in range(count):
            hat[k] = unary[start + k]
            size[k] = magnitude[start + k]
        for h in range(low, high):
            inbox = exact.message_ptr[i] + (h - low) * width
            for k in range(count):
                hat[k] += messages[inbox + k]
                size[k] += abs(messages[inbox + k])
        error = (float(high - low) + 8.0) * _EPS
        least = np.inf
        for k in range(count):
            if hat[k] < np.inf:
                value = hat[k] - error * size[k]
                if value < least:
                    least = value
        if least == np.inf:
            return np.inf
        step = least - lost  # Kahan summation
        new = total + step
        lost = (new - total) - step
        total = new
        absolute += abs(least)
        share = (1.0 - 4.0 * _EPS) / max(float(middle - low), float(high - middle), 1.0)
        for h in range(low, middle):
            j = exact.neighbour[h]
            inbox = exact.message_ptr[i] + (h - low) * width
            there = exact.labels[j]
            back = exact.message_ptr[j]
            back += (exact.mate[h] - exact.half_ptr[j]) * ((there + _P - _1) // _P * _P)
            rows, columns = exact.own_count[h], exact.other_count[h]
            for r in range(rows):
                own[r] = np.inf
            for c in range(columns):
                other[c] = np.inf
            for k in range(count):
                if hat[k] < np.inf:
                    value = share * (hat[k] - least)
                    message = messages[inbox + k]
                    charge = error * (share * (size[k] + abs(least)) + abs(message))
                    value = value - message - charge - 8.0 * _EPS * (abs(value) + abs(message))
                    r = k if exact.own_line[h] == _NONE else exact.maps[exact.own_line[h] + k]
                    if value < own[r]:
                        own[r] = value
            origin, factor = exact.origin[h], exact.factor[h]
            for r in range(rows):
                row = origin + exact.maps[exact.own_lines[h] + r] * exact.own_step[h]
                mine = own[r]
                for c in range(columns):
                    value = exact.base[row + exact.maps[exact.other_lines[h] + c] * exact.other_step[h]] * factor
                    value *= (1.0 - 8.0 * _EPS) if value > 0.0 else (1.0 + 8.0 * _EPS)
                    value += mine
                    if value < other[c]:
                        other[c] = value
            for k in range(there):
                c = k if exact.other_line[h] == _NONE else exact.maps[exact.other_line[h] + k]
                messages[back + k] = other[c]
    return total - 8.0 * _EPS * absolute
