"""Models of the transformers library, unmodified and without weights: a proved plan each on one and two dimensions."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from berthage_torch import Constraints, SearchResult, run_search

transformers = pytest.importorskip("transformers", reason="the library transformers is not installed")

VOCABULARY, WIDTH, INNER, LAYERS, HEADS = 4096, 1024, 4096, 2, 16
NAMED = {
    "vocab_size": VOCABULARY,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "gpt2": {"vocab_size": VOCABULARY, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS},
    "llama": {**NAMED, "num_key_value_heads": 8},
    "bert": NAMED,
    "mistral": {**NAMED, "num_key_value_heads": 8},
    "qwen2": {**NAMED, "num_key_value_heads": 8},
    "phi": NAMED,
    "gemma": {**NAMED, "num_key_value_heads": 8, "head_dim": 64},
    "opt": {**NAMED, "ffn_dim": INNER, "word_embed_proj_dim": WIDTH},
    "gpt_neox": NAMED,
    "gpt_neo": {
        "vocab_size": VOCABULARY,
        "hidden_size": WIDTH,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "attention_types": [[["global", "local"], LAYERS // 2]],
    },
    "bloom": {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "n_layer": LAYERS, "n_head": HEADS},
    "t5": {
        "vocab_size": VOCABULARY,
        "d_model": WIDTH,
        "d_kv": WIDTH // HEADS,
        "d_ff": INNER,
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "decoder_start_token_id": 0,
    },
}
FAST = ("gpt2", "llama", "bert")
HEAD = {"bert": "AutoModelForMaskedLM", "t5": "AutoModelForSeq2SeqLM"}
MESHES = {"x=8": "S(0)", "dp=2,tp=4": "S(0)R"}


def planned(name: str, mesh: str) -> SearchResult:
    """With the loss computed inside, tokens sharded over the first mesh dimension, and the least parameter memory."""
    config = transformers.AutoConfig.for_model(
        name, bos_token_id=1, eos_token_id=1, pad_token_id=0, **ARCHITECTURES[name]
    )
    with torch.device("meta"):
        model = getattr(transformers, HEAD.get(name, "AutoModelForCausalLM")).from_config(config)
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
