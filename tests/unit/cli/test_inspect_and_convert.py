"""``berthage inspect`` and ``berthage convert``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cli_plugin import strict


class TestInspectAndConvert:
    def test_inspect(self, run: Any, tight: Path) -> None:
        done = run("inspect", tight)
        assert done.exit_code == 0
        assert "tiny: 2 variables, 0 edges, 1 budget" in done.stdout
        assert "linear budget weight: at most 1 over 2 variables" in done.stdout
        document = strict(run("inspect", tight, "--json").stdout)
        assert document["stats"]["labels"] == 4
        assert document["constraints"] == ["weight"]
        assert document["budgets"][0]["lower"] is None

    def test_convert(self, run: Any, tight: Path, tmp_path: Path) -> None:
        done = run("convert", tight, tmp_path / "out.tiny", "--format-option", "scale=2", "--to-option", "scale=5")
        assert done.exit_code == 0
        assert json.loads((tmp_path / "out.tiny").read_text()) == {"costs": [[50, 10], [40, 20]]}

    def test_convert_to_an_unknown_format(self, run: Any, tight: Path, tmp_path: Path) -> None:
        done = run("convert", tight, tmp_path / "out.tinny")
        assert done.exit_code == 2
        assert "did you mean .tiny" in done.stderr
