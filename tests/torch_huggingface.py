"""Models of the transformers library by architecture, as they are searched, and in small as they are run on ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from berthage_torch import Constraints, Plan, apply_plan, search
from berthage_torch.running.comparing import distance, numbers_of, numbers_on_one
from berthage_torch.running.data import Sample

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
HEAD = {"bert": "AutoModelForMaskedLM", "t5": "AutoModelForSeq2SeqLM"}
# In every attention a bias of the keys changes nothing (softmax does not see what is added to a whole row), so that its
# gradient is noise around zero and has no relative distance.
NOISE = ("key.bias", "k_proj.bias")


def made(name: str, **sizes: Any) -> nn.Module:
    """A model with a language head, on the current device."""
    import transformers

    given = {**ARCHITECTURES[name], **sizes}
    config = transformers.AutoConfig.for_model(name, bos_token_id=1, eos_token_id=1, pad_token_id=0, **given)
    model: nn.Module = getattr(transformers, HEAD.get(name, "AutoModelForCausalLM")).from_config(config)
    return model


def _small(name: str) -> dict[str, Any]:
    scaled = {VOCABULARY: 64, WIDTH: 32, INNER: 64, HEADS: 4, 8: 2, 64: 8}
    kept = {"num_layers", "num_hidden_layers", "n_layer"}
    return {
        key: scaled.get(value, value) if isinstance(value, int) and key not in kept else value
        for key, value in ARCHITECTURES[name].items()
    }


def _sample(name: str) -> Sample:
    torch.manual_seed(0)
    model = made(name, **_small(name)).eval()  # dropout is drawn by each rank for itself
    tokens = torch.randint(2, 64, (8, 16))
    return Sample(model, (), {"input_ids": tokens, "labels": tokens}, 0)


def small_plan(name: str) -> Plan:
    """On a mesh of (2, 2), with every parameter sharded as far as it goes."""
    sample = _sample(name)
    demands = Constraints(inputs={"*": "S(0)R"}, parameter_memory="least")
    return search(sample.model, sample.kwargs, "dp=2,tp=2", constraints=demands)


def run_all(cases: Sequence[tuple[str, Plan]]) -> dict[str, tuple[dict[str, Any], int]]:
    """How far each is from one device, and how many collectives it has. Rank 0 compares."""
    found = {}
    for name, plan in cases:
        sample = _sample(name)
        parallel = apply_plan(plan, sample.model, sample.args, sample.kwargs)
        numbers = numbers_of(parallel, sample, torch.device("cpu"))
        if dist.get_rank() == 0:
            one = numbers_on_one(sample, None, torch.device("cpu"))
            told = {key: grad for key, grad in one.gradients.items() if not key.endswith(NOISE)}
            apart = distance(numbers, type(one)(one.outputs, told))
            found[name] = asdict(apart), sum(parallel.lowered.collectives().values())
        dist.barrier()
    return found
