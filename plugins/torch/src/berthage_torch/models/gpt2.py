"""GPT-2: learned positions, LayerNorm, biased projections, GELU, output tied to the token embedding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Gpt2", "Gpt2Sizes"]


@dataclass(frozen=True, slots=True)
class Gpt2Sizes:
    """Sizes of a GPT-2.

    Attributes:
        dim: Width of the residual stream.
        layers: Number of blocks.
        heads: Attention heads.
        vocab: Number of tokens.
        sequence: Positions.
        batch: Global batch size of the inputs.
        dropout: Probability, in training.
    """

    dim: int = 768
    layers: int = 12
    heads: int = 12
    vocab: int = 50257
    sequence: int = 1024
    batch: int = 16
    dropout: float = 0.0


class Block(nn.Module):
    """One layer."""

    def __init__(self, sizes: Gpt2Sizes) -> None:
        super().__init__()
        self.heads, self.dropout = sizes.heads, sizes.dropout
        self.ln_1 = nn.LayerNorm(sizes.dim)
        self.c_attn = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.c_proj = nn.Linear(sizes.dim, sizes.dim)
        self.ln_2 = nn.LayerNorm(sizes.dim)
        self.c_fc = nn.Linear(sizes.dim, 4 * sizes.dim)
        self.c_out = nn.Linear(4 * sizes.dim, sizes.dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        batch, length, dim = x.shape
        qkv = self.c_attn(self.ln_1(x)).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out = self.c_proj(out.transpose(1, 2).reshape(batch, length, dim))
        x = x + F.dropout(out, self.dropout, self.training)
        out = self.c_out(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))
        return x + F.dropout(out, self.dropout, self.training)


class Gpt2(nn.Module):
    """Tokens ``[batch, sequence]`` to logits ``[batch, sequence, vocab]``."""

    def __init__(self, sizes: Gpt2Sizes) -> None:
        super().__init__()
        self.wte = nn.Embedding(sizes.vocab, sizes.dim)
        self.wpe = nn.Embedding(sizes.sequence, sizes.dim)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.ln_f = nn.LayerNorm(sizes.dim)
        self.lm_head = nn.Linear(sizes.dim, sizes.vocab, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at every position."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_f(x))  # type: ignore[no-any-return]
