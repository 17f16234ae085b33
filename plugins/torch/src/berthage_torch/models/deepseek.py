"""DeepSeek-V3: latent attention (MLA), and a mixture of shared and routed experts.

The routed experts are a `berthage_torch.local_map` region: every rank of the ``ep`` axis runs its own experts over the
tokens of its ``dp`` row, and the partial sums are reduced outside. Shapes never depend on the routing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from berthage_torch.marks import local_map

from .llama import FeedForward, apply_rotary, rotary_at, rotary_table

__all__ = ["DeepSeek", "DeepSeekSizes"]

_DATA_AXES = ("dp", "dp_shard", "dp_replicate", "fsdp", "ddp", "data", "batch")


@dataclass(frozen=True, slots=True)
class DeepSeekSizes:
    """Sizes of a DeepSeek-V3.

    Attributes:
        dim: Width of the residual stream.
        layers: Number of blocks.
        dense_layers: How many of them, the first, have a plain feed-forward network.
        heads: Attention heads.
        nope_size: Part of a query or key head without positions.
        rope_size: Part of a query or key head with rotary positions; shared by the heads of a key.
        value_size: Size of a value head.
        kv_rank: Width of the latent that keys and values are made from.
        q_rank: Likewise for queries; 0 projects queries directly.
        hidden: Feed-forward width of the dense layers.
        experts: Routed experts.
        shared_experts: Experts that see every token, merged into one of as many times the width.
        top_k: Routed experts a token goes to.
        expert_hidden: Feed-forward width of an expert.
        route_scale: Factor of the routing weights.
        vocab: Number of tokens.
        sequence: Positions.
        batch: Global batch size of the inputs.
        rope_theta: Base of the rotary frequencies.
        norm_eps: Added to the mean square in RMSNorm.
    """

    dim: int = 256
    layers: int = 6
    dense_layers: int = 1
    heads: int = 16
    nope_size: int = 128
    rope_size: int = 64
    value_size: int = 128
    kv_rank: int = 512
    q_rank: int = 0
    hidden: int = 1024
    experts: int = 64
    shared_experts: int = 2
    top_k: int = 3
    expert_hidden: int = 256
    route_scale: float = 1.0
    vocab: int = 2048
    sequence: int = 2048
    batch: int = 512
    rope_theta: float = 10000.0
    norm_eps: float = 1e-5


class Attention(nn.Module):
    """Causal multi-head latent attention."""

    def __init__(self, sizes: DeepSeekSizes) -> None:
        super().__init__()
        self.heads, self.nope, self.rope = sizes.heads, sizes.nope_size, sizes.rope_size
        self.value, self.rank = sizes.value_size, sizes.kv_rank
        width = self.heads * (self.nope + self.rope)
        self.q_rank = sizes.q_rank
        if self.q_rank:
            self.wq_a = nn.Linear(sizes.dim, self.q_rank, bias=False)
            self.q_norm = nn.RMSNorm(self.q_rank, eps=sizes.norm_eps)
        self.wq = nn.Linear(self.q_rank or sizes.dim, width, bias=False)
        self.wkv_a = nn.Linear(sizes.dim, self.rank + self.rope, bias=False)
        self.kv_norm = nn.RMSNorm(self.rank, eps=sizes.norm_eps)
        self.wkv_b = nn.Linear(self.rank, self.heads * (self.nope + self.value), bias=False)
        self.wo = nn.Linear(self.heads * self.value, sizes.dim, bias=False)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        batch, length, _ = x.shape
        q = self.wq(self.q_norm(self.wq_a(x)) if self.q_rank else x)
        q_nope, q_rope = q.view(batch, length, self.heads, -1).split([self.nope, self.rope], dim=-1)
        latent, k_rope = self.wkv_a(x).split([self.rank, self.rope], dim=-1)
        kv = self.wkv_b(self.kv_norm(latent)).view(batch, length, self.heads, -1)
        k_nope, v = kv.split([self.nope, self.value], dim=-1)
        k_rope = apply_rotary(k_rope.unsqueeze(2), rotary).expand(-1, -1, self.heads, -1)
        q = torch.cat((q_nope, apply_rotary(q_rope, rotary)), dim=-1)
        k = torch.cat((k_nope, k_rope), dim=-1)
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]


def run_experts(
    x: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor,
    ids: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    w3: torch.Tensor,
) -> torch.Tensor:
    """The part of a mixture of experts that the experts ``ids`` contribute.

    Args:
        x: Tokens, ``[batch, sequence, dim]``.
        chosen: Experts of each token, ``[batch, sequence, top_k]``.
        weights: Their weights, of the same shape.
        ids: Numbers of the experts here, consecutive, ``[here]``.
        w1: ``[here, dim, hidden]``.
        w2: ``[here, hidden, dim]``.
        w3: ``[here, dim, hidden]``.

    Returns:
        ``[batch, sequence, dim]``; summed over all experts it is the mixture.
    """
    tokens, here, top_k = x.reshape(-1, x.shape[-1]), ids.shape[0], chosen.shape[-1]
    slot = chosen.reshape(-1) - ids[0]
    slot = torch.where((slot >= 0) & (slot < here), slot, here)
    order = torch.argsort(slot, stable=True)
    counts = torch.zeros(here + 1, dtype=torch.int64, device=x.device).scatter_add(0, slot, torch.ones_like(slot))
    ends = counts[:here].cumsum(0).to(torch.int32)
    # Rows behind the last end belong to experts elsewhere: what the grouped products leave there is never used.
    mine = (torch.arange(slot.shape[0], device=x.device) < ends[-1]).unsqueeze(-1)
    source = order // top_k
    rows = torch.where(mine, tokens[source], 0.0).to(torch.bfloat16)
    up, down, gate = (w.to(torch.bfloat16) for w in (w1, w2, w3))
    hidden = F.silu(torch._grouped_mm(rows, up, offs=ends)) * torch._grouped_mm(rows, gate, offs=ends)
    out = torch.where(mine, torch._grouped_mm(hidden, down, offs=ends), 0.0)
    out = out * weights.reshape(-1)[order].unsqueeze(-1)
    return torch.zeros_like(tokens).index_add(0, source, out.to(tokens.dtype)).view(x.shape)


class MixtureOfExperts(nn.Module):
    """Shared experts for every token, routed ones for those that chose them."""

    expert_bias: torch.Tensor
    expert_ids: torch.Tensor

    def __init__(self, sizes: DeepSeekSizes) -> None:
        super().__init__()
        self.top_k, self.route_scale = sizes.top_k, sizes.route_scale
        self.router = nn.Linear(sizes.dim, sizes.experts, bias=False)
        self.register_buffer("expert_bias", torch.zeros(sizes.experts), persistent=True)
        self.register_buffer("expert_ids", torch.arange(sizes.experts), persistent=False)
        self.w1 = nn.Parameter(torch.empty(sizes.experts, sizes.dim, sizes.expert_hidden))
        self.w2 = nn.Parameter(torch.empty(sizes.experts, sizes.expert_hidden, sizes.dim))
        self.w3 = nn.Parameter(torch.empty(sizes.experts, sizes.dim, sizes.expert_hidden))
        for weight in (self.w1, self.w2, self.w3):
            nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        self.shared = FeedForward(sizes.dim, sizes.shared_experts * sizes.expert_hidden)
        tokens = dict.fromkeys(_DATA_AXES, "S(0)")
        experts = {"ep": "S(0)"}
        self.routed = local_map(
            run_experts,
            in_placements=(tokens, tokens, tokens, experts, experts, experts, experts),
            out_placements={**tokens, "ep": "P"},
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        scores = torch.sigmoid(self.router(x).float())
        chosen = torch.topk(scores + self.expert_bias, self.top_k, dim=-1)[1]
        weights = scores.gather(-1, chosen)
        weights = (weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.route_scale).to(x.dtype)
        routed = self.routed(x, chosen, weights, self.expert_ids, self.w1, self.w2, self.w3)
        return self.shared(x) + routed  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer."""

    def __init__(self, sizes: DeepSeekSizes, dense: bool) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.attention = Attention(sizes)
        self.ffn_norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden) if dense else MixtureOfExperts(sizes)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        x = x + self.attention(self.attention_norm(x), rotary)
        return x + self.feed_forward(self.ffn_norm(x))  # type: ignore[no-any-return]


class DeepSeek(nn.Module):
    """Tokens ``[batch, sequence]`` to logits ``[batch, sequence, vocab]``."""

    rotary: torch.Tensor

    def __init__(self, sizes: DeepSeekSizes) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(sizes.vocab, sizes.dim)
        self.layers = nn.ModuleList(Block(sizes, dense=i < sizes.dense_layers) for i in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.output = nn.Linear(sizes.dim, sizes.vocab, bias=False)
        table = rotary_table(sizes.rope_size, sizes.sequence, sizes.rope_theta)
        self.register_buffer("rotary", table, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at every position."""
        x = self.tok_embeddings(tokens)
        rotary = rotary_at(self.rotary, x)
        for layer in self.layers:
            x = layer(x, rotary)
        return self.output(self.norm(x))  # type: ignore[no-any-return]
