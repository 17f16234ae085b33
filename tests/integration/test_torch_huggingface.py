"""Models of the transformers library, unmodified and without weights: a proved plan each on one and two dimensions."""

from __future__ import annotations

import math

import pytest
import torch
import torch_huggingface as models
from torch_huggingface import ARCHITECTURES, LAYERS, made
from torch_processes import run_ranks

from berthage_torch import Constraints, SearchResult, run_search

pytest.importorskip("transformers", reason="the library transformers is not installed")

FAST = ("gpt2", "llama", "bert")
MESHES = {"x=8": "S(0)", "dp=2,tp=4": "S(0)R"}


def planned(name: str, mesh: str) -> SearchResult:
    """With the loss computed inside, tokens sharded over the first mesh dimension, and the least parameter memory."""
    with torch.device("meta"):
        model = made(name)
    tokens = torch.zeros(64, 512, dtype=torch.int64)
    demands = Constraints(inputs={"*": MESHES[mesh]}, parameter_memory="least")
    return run_search(model, {"input_ids": tokens, "labels": tokens}, mesh, constraints=demands)


@pytest.mark.filterwarnings("error::berthage_torch.MissingRuleWarning")
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in ARCHITECTURES]
)
def test_a_proved_plan(name: str, mesh: str) -> None:
    found = planned(name, mesh)
    plan = found.plan
    assert plan is not None, found.result.termination
    assert found.result.termination.reason.value == "optimal"
    assert plan.relative_gap <= 1e-9
    assert found.result.evaluation is not None
    assert not found.result.evaluation.violations
    # The sum over every node and every move of the whole graph, with nothing tied.
    assert math.isclose(plan.compute_us + plan.communication_us, plan.objective, rel_tol=1e-9)
    products = [node for node in plan.nodes if node.op.startswith(("aten.mm.", "aten.addmm.", "aten.bmm."))]
    assert len(products) > 6 * LAYERS
    alone = [node.name for node in products if {*"".join((*node.inputs, *node.outputs))} == {"R"}]
    assert not alone, f"every rank does the same: {alone}"
    parameters = [node for node in plan.nodes if node.op == "parameter"]
    assert all("S" in node.outputs[0] for node in parameters if not node.name.endswith(("bias", "relative")))


@pytest.mark.slow
def test_they_run_as_planned() -> None:
    """In small on four ranks: loss, logits and every gradient are those of one device."""
    cases = [(name, models.small_plan(name)) for name in ARCHITECTURES]
    for found in run_ranks(models.run_all, 4, cases, timeout=1500)[:1]:
        assert set(found) == set(ARCHITECTURES)
        for name, (apart, collectives) in found.items():
            assert apart["output"] < 1e-5, (name, apart)
            assert apart["gradient"] < 1e-5, (name, apart)
            assert collectives > 0, name
