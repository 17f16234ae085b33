"""Which format a file is of: by its name, by what it contains."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from listing_plugins import Formats

from berthage.errors import UnknownNameError, UnsupportedProblemError
from berthage.registry import FormatInfo, Registry


class TestFormatFor:
    registry = Registry(
        {
            "f": Formats(
                FormatInfo("uai", "", "a:b", extensions=(".uai",), writes=True),
                FormatInfo("json", "", "a:b", extensions=(".json",)),
                FormatInfo("deep", "", "a:b", extensions=(".deep.json",)),
                FormatInfo("clash-a", "", "a:b", extensions=(".clash",)),
                FormatInfo("clash-b", "", "a:b", extensions=(".clash",), writes=True),
            )
        }
    )

    @pytest.mark.parametrize(
        ("path", "name"),
        [
            ("x.uai", "uai"),
            ("dir.json/X.UAI", "uai"),
            ("x.uai.gz", "uai"),
            ("x.uai.xz", "uai"),
            ("x.json", "json"),
            ("x.deep.json", "deep"),
        ],
    )
    def test_the_longest_ending_decides(self, path: str, name: str) -> None:
        assert self.registry.format_for(path).name == name

    def test_an_unknown_ending_is_answered_with_near_misses(self) -> None:
        with pytest.raises(UnknownNameError, match=r"ending '\.uia'; did you mean \.uai\?"):
            self.registry.format_for("x.uia")

    def test_a_file_without_ending_is_answered_with_all(self) -> None:
        with pytest.raises(UnknownNameError, match="name the format"):
            self.registry.format_for("problem")

    def test_several_formats_of_one_ending_must_be_told_apart(self) -> None:
        with pytest.raises(UnknownNameError, match="clash-a, clash-b"):
            self.registry.format_for("x.clash")
        assert self.registry.format_for("x.clash", writing=True).name == "clash-b"

    def test_a_format_that_only_reads_refuses_to_write(self) -> None:
        with pytest.raises(UnsupportedProblemError, match="'json' cannot be written"):
            self.registry.format_for("x.json", writing=True)


def starts_with_a(head: bytes) -> bool:
    return head.startswith(b"A")


def sniffs_badly(head: bytes) -> bool:
    raise ValueError("cannot smell")


class TestFormatByContent:
    registry = Registry(
        {
            "f": Formats(
                FormatInfo("a", "", "a:b", extensions=(".same",), sniff=f"{__name__}:starts_with_a"),
                FormatInfo("b", "", "a:b", extensions=(".same",), sniff="operator:not_"),
            )
        }
    )

    @pytest.mark.parametrize("name", ["x.same", "x.other", "x"])
    def test_the_content_decides_where_the_name_does_not(self, tmp_path: Any, name: str) -> None:
        (tmp_path / name).write_bytes(b"A file")
        assert self.registry.format_for(tmp_path / name).name == "a"

    def test_content_is_looked_at_through_compression(self, tmp_path: Any) -> None:
        (tmp_path / "x.same.gz").write_bytes(gzip.compress(b"A file"))
        assert self.registry.format_for(tmp_path / "x.same.gz").name == "a"

    def test_a_sniffer_that_fails_only_warns(self, tmp_path: Any) -> None:
        (tmp_path / "x").write_bytes(b"A file")
        good = FormatInfo("a", "", "a:b", sniff=f"{__name__}:starts_with_a")
        bad = FormatInfo("b", "", "a:b", sniff=f"{__name__}:sniffs_badly")
        registry = Registry({"f": Formats(good, bad)})
        with pytest.warns(RuntimeWarning, match="format 'b' of plugin 'f' cannot look into files: cannot smell"):
            assert registry.format_for(tmp_path / "x").name == "a"
