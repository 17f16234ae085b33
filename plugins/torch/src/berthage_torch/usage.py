"""What this process has used. Imports no torch."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak_rss_bytes"]


def peak_rss_bytes() -> int | None:
    """Most memory that this process has had at once, bytes; None where the system does not say."""
    try:
        # What getrusage tells on Linux includes the process that started this one, up to its exec.
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
