"""The console script. Imports click only when called, to say how to install it when it is missing."""

from __future__ import annotations

import sys
import warnings


def main() -> None:
    """Run ``berthage``."""
    warnings.formatwarning = _plain
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(
            f"berthage: the command line needs {error.name}, which is not installed; run: pip install click rich\n"
        )
        raise SystemExit(1) from None
    from berthage.cli.app import app

    app(prog_name="berthage")


def _plain(message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """A warning as a person at a terminal wants it: the message, without a line of somebody's source."""
    return f"warning: {message}\n"


if __name__ == "__main__":
    main()
