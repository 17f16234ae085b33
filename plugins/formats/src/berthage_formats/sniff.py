"""Telling a file's format by its first bytes, where its name does not."""

from __future__ import annotations

import re

__all__ = ["is_gap", "is_iopddl", "is_sharding", "is_uai"]

_NUMBERS = re.compile(rb"[\s0-9.+-]+")
_SHARDING_MEMBERS = (b"n_choices.npy", b"choice_ptr.npy")


def is_iopddl(head: bytes) -> bool:
    """Whether the (decompressed) start of a file looks like an IOPDDL problem."""
    return head.lstrip().startswith(b"{") and b'"problem"' in head and (b'"nodes"' in head or b'"edges"' in head)


def is_uai(head: bytes) -> bool:
    """Whether it looks like a UAI model."""
    return head.lstrip()[:6].upper() == b"MARKOV" or head.lstrip()[:5].upper() == b"BAYES"


def is_gap(head: bytes) -> bool:
    """Whether it looks like a generalised assignment problem: numbers only, from two counts on."""
    words = head.split(maxsplit=2)
    return len(words) == 3 and words[0].isdigit() and words[1].isdigit() and _NUMBERS.fullmatch(head) is not None


def is_sharding(head: bytes) -> bool:
    """Whether it looks like the archive of a recorded sharding search."""
    return head.startswith(b"PK") and any(name in head for name in _SHARDING_MEMBERS)
