"""The console script. Imports click only when called, to say how to install it when it is missing."""

from __future__ import annotations

import sys


def main() -> None:
    """Run ``berthage``."""
    try:
        import click  # noqa: F401
        import rich  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in {"click", "rich"}:
            raise
        sys.stderr.write(
            f"berthage: the command line needs {error.name}, which is not installed; run: pip install 'berthage[cli]'\n"
        )
        raise SystemExit(1) from None
    from berthage.cli.app import app

    app(prog_name="berthage")


if __name__ == "__main__":
    main()
