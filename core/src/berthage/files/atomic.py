"""Writing files so that a reader sees the old content or the new, never a part."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

__all__ = ["atomic_write"]


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file for writing that replaces `path` in one step when the block ends without an error.

    The content goes to a temporary file in the same folder first and is flushed to disk; an error inside the
    block
    leaves what was at `path` untouched and removes the temporary file.

    Args:
        path: The file to write.

    Raises:
        OSError: When the folder does not exist or cannot be written.
    """
    target = Path(path)
    target = target.resolve() if target.is_symlink() else target  # replace what a link points to, not the link
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _mode(target: Path) -> int:
    """Permissions of the file that is replaced, or those a newly made file would get."""
    try:
        return target.stat().st_mode & 0o777
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask
