"""Llama 3: RMSNorm, rotary embeddings, grouped-query attention, SwiGLU."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

__all__ = ["Llama", "LlamaSizes", "apply_rotary", "rotary_at", "rotary_table"]


@dataclass(frozen=True, slots=True)
class LlamaSizes:
    """Sizes of a Llama.

    Attributes:
        dim: Width of the residual stream.
        layers: Number of blocks.
        heads: Query heads.
        kv_heads: Key and value heads; divides ``heads``.
        ffn_multiplier: The feed-forward width is ``8/3 * dim * ffn_multiplier``, rounded up to ``multiple_of``.
        multiple_of: See above.
        vocab: Number of tokens.
        sequence: Positions.
        batch: Global batch size of the inputs.
        rope_theta: Base of the rotary frequencies.
        norm_eps: Added to the mean square in RMSNorm.
    """

    dim: int = 2048
    layers: int = 16
    heads: int = 32
    kv_heads: int = 8
    ffn_multiplier: float = 1.5
    multiple_of: int = 256
    vocab: int = 128256
    sequence: int = 2048
    batch: int = 16
    rope_theta: float = 500000.0
    norm_eps: float = 1e-5

    @property
    def hidden(self) -> int:
        """Feed-forward width."""
        wanted = int(self.ffn_multiplier * int(8 * self.dim / 3))
        return self.multiple_of * -(-wanted // self.multiple_of)


def rotary_table(size: int, sequence: int, theta: float) -> torch.Tensor:
    """Cosines and sines of the rotary embedding, ``[2, sequence, size / 2]``, float32."""
    frequencies = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
    angles = torch.outer(torch.arange(sequence, dtype=torch.float32), frequencies)
    return torch.stack((angles.cos(), angles.sin()))


def rotary_at(table: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines ``[sequence, 1, size / 2]`` of a table for the positions and in the dtype of ``x``."""
    cos, sin = table[:, : x.shape[1], None, :].to(x.dtype)
    return cos, sin


def apply_rotary(x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Rotate the halves of each head.

    Args:
        x: ``[batch, sequence, heads, size]``.
        rotary: From `rotary_at`.
    """
    cos, sin = rotary
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """Causal grouped-query attention."""

    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.size = sizes.heads, sizes.kv_heads, sizes.dim // sizes.heads
        self.wq = nn.Linear(sizes.dim, self.heads * self.size, bias=False)
        self.wk = nn.Linear(sizes.dim, self.kv_heads * self.size, bias=False)
        self.wv = nn.Linear(sizes.dim, self.kv_heads * self.size, bias=False)
        self.wo = nn.Linear(self.heads * self.size, sizes.dim, bias=False)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        batch, length, _ = x.shape
        q = apply_rotary(self.wq(x).view(batch, length, self.heads, self.size), rotary)
        k = apply_rotary(self.wk(x).view(batch, length, self.kv_heads, self.size), rotary)
        v = self.wv(x).view(batch, length, self.kv_heads, self.size)
        k, v = (self._repeat(t).transpose(1, 2) for t in (k, v))
        out = F.scaled_dot_product_attention(q.transpose(1, 2), k, v, is_causal=True)
        return self.wo(out.transpose(1, 2).reshape(batch, length, -1))  # type: ignore[no-any-return]

    def _repeat(self, x: torch.Tensor) -> torch.Tensor:
        times = self.heads // self.kv_heads
        batch, length, heads, size = x.shape
        if times == 1:
            return x
        return x[:, :, :, None, :].expand(batch, length, heads, times, size).reshape(batch, length, -1, size)


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.w1 = nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """``[..., dim]`` to the same."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))  # type: ignore[no-any-return]


class Block(nn.Module):
    """One layer."""

    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.attention = Attention(sizes)
        self.ffn_norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.feed_forward = FeedForward(sizes.dim, sizes.hidden)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """``[batch, sequence, dim]`` to the same."""
        x = x + self.attention(self.attention_norm(x), rotary)
        return x + self.feed_forward(self.ffn_norm(x))  # type: ignore[no-any-return]


class Llama(nn.Module):
    """Tokens ``[batch, sequence]`` to logits ``[batch, sequence, vocab]``."""

    rotary: torch.Tensor

    def __init__(self, sizes: LlamaSizes) -> None:
        super().__init__()
        self.tok_embeddings = nn.Embedding(sizes.vocab, sizes.dim)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_eps)
        self.output = nn.Linear(sizes.dim, sizes.vocab, bias=False)
        table = rotary_table(sizes.dim // sizes.heads, sizes.sequence, sizes.rope_theta)
        self.register_buffer("rotary", table, persistent=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at every position."""
        x = self.tok_embeddings(tokens)
        rotary = rotary_at(self.rotary, x)
        for layer in self.layers:
            x = layer(x, rotary)
        return self.output(self.norm(x))  # type: ignore[no-any-return]
