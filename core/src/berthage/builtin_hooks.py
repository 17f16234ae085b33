"""What core itself offers, registered through the same hooks as a stranger's plugin."""

from __future__ import annotations

from berthage.registry.descriptions import FormatInfo
from berthage.registry.hookspecs import hookimpl


@hookimpl
def berthage_formats() -> list[FormatInfo]:
    """Berthage's own problem files."""
    return [
        FormatInfo(
            name="berthage",
            summary="Berthage's own problem files: lossless, one file.",
            target="berthage.files.native:NativeFormat",
            extensions=(".berthage",),
            reads=True,
            writes=True,
        )
    ]
