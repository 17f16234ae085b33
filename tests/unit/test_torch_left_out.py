"""Strategies that the sizes of tensors do not allow are told, not dropped in silence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from berthage_torch import Constraints, SearchResult, run_search
from berthage_torch.commands.sizes import left_out_lines
from berthage_torch.models import zoo


def gpt2(mesh: str, **sizes: int) -> SearchResult:
    small: dict[str, Any] = {"layers": 1, "batch": 24, "sequence": 64, "dim": 96, "heads": 4, "vocab": 128, **sizes}
    return run_search(zoo.build("gpt2", **small), None, mesh, constraints=Constraints())


def test_nothing_is_told_where_everything_divides() -> None:
    found = run_search(zoo.build("mlp", layers=1), None, "x=4")
    assert found.left_out == ()
    assert list(left_out_lines(found)) == []


def test_views_that_cannot_split_a_head_are_told() -> None:
    """Five heads of 16 on two ranks: the 80 features divide, the heads do not."""
    found = gpt2("x=2", dim=80, heads=5)
    views = {each.op: each for each in found.left_out if each.uneven}
    assert any(op.startswith("aten.view") for op in views)
    (line,) = [line for line in left_out_lines(found) if "uneven" in line]
    assert "strateg" in line
    assert "aten." in line


def test_ranks_without_an_element_are_told() -> None:
    """Four heads on eight ranks."""
    found = gpt2("x=8")
    empty = {each.op: each.empty for each in found.left_out if each.empty}
    assert any("attention" in op for op in empty)
    assert any("leave a rank without an element" in line for line in left_out_lines(found))


class Thin(nn.Module):
    """A dimension of one element, which nobody would cut."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x)


@pytest.mark.parametrize(("shape", "told"), [((8, 1), 0), ((8, 2), 1)])
def test_a_dimension_of_one_element_does_not_count(shape: tuple[int, int], told: int) -> None:
    found = run_search(Thin(), (torch.zeros(shape),), "x=4")
    assert [each.empty for each in found.left_out if each.op == "aten.relu.default"] == [1] * told
