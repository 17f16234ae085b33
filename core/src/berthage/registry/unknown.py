"""The answer to a name that nobody registered: near misses, and what to install."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

KNOWN: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("solver", "berthage-ilp", ("ilp", "ilp-pulp", "ilp-pyomo")),
    ("solver", "berthage-lp", ("lp",)),
    ("solver", "berthage-exact", ("exact",)),
    ("solver", "berthage-toulbar2", ("toulbar2",)),
    ("solver", "berthage-trws", ("trws", "trws-lazy")),
    (
        "reduction",
        "berthage-presolve",
        (
            "presolve",
            "arc-consistency",
            "budget-pins",
            "merge-ties",
            "single-labels",
            "merge-edges",
            "dominated-labels",
            "eliminate",
            "components",
        ),
    ),
    ("format", "berthage-formats", ("iopddl", "uai", "wcsp", "cfn", "gap", "sharding")),
    ("cost model", "berthage-nccl", ("nccl-h100", "nccl-h200", "nccl-a100", "nccl-b200")),
    ("seeder", "berthage-split", ("split-dim",)),
    ("command", "berthage-nccl", ("price", "nccl")),
    ("command", "berthage-torch", ("search", "explain", "diff", "reprice", "run", "verify", "profile")),
)
"""(kind, distribution, names) of the plugins that are kept beside core, for installation hints."""


BUILDS_ON: Final = {"berthage-exact": ("berthage-trws",), "berthage-torch": ("berthage-nccl", "berthage-split")}
"""Which of them need others of them, which an installer must not look for on an index either."""


def how_to_install(*distributions: str) -> str:
    """The command that installs distributions of one project.

    Ours are on no index yet, and a name that is free there could be anybody's: they are installed from the
    repository, where each has the folder ``plugins/NAME``.
    """
    ours = {distribution for _, distribution, _ in KNOWN}
    if not ours.issuperset(distributions):
        return f"pip install {' '.join(distributions)}"
    needed = dict.fromkeys(part for name in distributions for part in (*BUILDS_ON.get(name, ()), name))
    folders = " ".join(f"./plugins/{name.removeprefix('berthage-')}" for name in needed)
    return f"pip install {folders} (in a clone of Berthage's repository; not published yet)"


def shipped(kind: str) -> tuple[str, ...]:
    """Our distributions that bring something of a kind."""
    return tuple(distribution for offered, distribution, _ in KNOWN if offered == kind)


def unknown_name(kind: str, name: str, available: Sequence[str], broken: Iterable[tuple[str, str]]) -> str:
    """The message for an unknown ``name``.

    Args:
        kind: What was asked for, e.g. ``"solver"``.
        name: What was typed.
        available: The names that are registered.
        broken: (plugin, reason) of every plugin that could not be loaded.
    """
    broken = list(broken)
    homes = {n: dist for k, dist, names in KNOWN if k == kind for n in names}
    wanted = name.lower().replace("_", "-")
    near = difflib.get_close_matches(wanted, [*available, *(n for n in homes if n not in available)], n=3)
    parts = [f"no {kind} is named {name!r}"]
    if wanted in homes and wanted not in available:
        parts.append(f"{wanted!r} comes with {homes[wanted]}: {how_to_install(homes[wanted])}")
        near = [n for n in near if n != wanted]
    else:
        hints = [
            repr(n) if n in available else f"{n!r} (of {homes[n]}, not installed: {how_to_install(homes[n])})"
            for n in near
        ]
        if hints:
            parts.append(f"did you mean {' or '.join(hints)}?")
    parts.append(f"installed: {', '.join(sorted(available)) if available else 'none'}")
    parts.extend(f"plugin {plugin} is unavailable: {reason}" for plugin, reason in broken)
    return "; ".join(parts)


def unknown_extension(file_name: str, extensions: Sequence[str]) -> str:
    """The message for a file whose name tells no format."""
    ending = file_name[file_name.find(".", 1) :] if "." in file_name[1:] else ""
    what = f"no format has the ending {ending!r}" if ending else f"{file_name!r} has no ending to tell its format"
    near = difflib.get_close_matches(ending, extensions, n=2) if ending else []
    hint = f"did you mean {' or '.join(near)}?" if near else "name the format"
    return f"{what}; {hint}; known endings: {', '.join(sorted(set(extensions))) or 'none'}"
