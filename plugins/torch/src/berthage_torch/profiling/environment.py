"""Where a search ran: versions and platform, and the state of the checkout. Names no machine; imports no torch."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from berthage import Registry

__all__ = ["environment", "git_state"]

_LIBRARIES = ("torch", "numpy", "numba", "scipy", "highspy", "PuLP", "pyomo")
_SETTINGS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONHASHSEED", "BERTHAGE_PLUGINS")


def environment(registry: Registry) -> dict[str, Any]:
    """Versions of Python, of Berthage and its plugins, and of what they use (null: not installed); the platform."""
    return {
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "berthage": _version("berthage"),
        "plugins": {record.name: record.version for record in registry.plugins},
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "platform": {"system": platform.system(), "release": platform.release(), "machine": platform.machine()},
        "cpus": os.cpu_count(),
        "settings": {name: os.environ[name] for name in _SETTINGS if name in os.environ},
    }


def git_state(folder: Path | None = None) -> dict[str, Any] | None:
    """Commit of the checkout that this code runs from, and whether files of it differ; None outside one.

    Args:
        folder: A folder in the checkout; None for that of this package.
    """
    folder = folder or Path(__file__).parent
    commit = _git(folder, "rev-parse", "HEAD")
    # Installed below some other project's checkout, in a virtual environment, this file is none of its files.
    if commit is None or not _git(folder, "ls-files", "--", "."):
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "changed": None if changed is None else bool(changed)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
