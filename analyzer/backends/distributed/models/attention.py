"""Self-attention: projections, rotary positions, and the core between them, fused or as operators of its own."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.backends.distributed.job import Attention as AttentionKind
from epochcast.analyzer.backends.distributed.models.architecture import Architecture

ROTARY_BASE = 10_000.0
"""Su et al. 2021, section 3.2.2; models differ in it, their times do not."""


class FusedCore(nn.Module):
    """Scores, softmax, dropout and mixing as one operator, whichever kernel the device has for it (FlashAttention)."""

    def __init__(self, causal: bool, dropout: float) -> None:
        super().__init__()
        self.causal, self.dropout = causal, dropout

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention output, shape (batch, heads, s, head_dim) as each input."""
        dropout = self.dropout if self.training else 0.0
        return functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=self.causal)


class EagerCore(FusedCore):
    """The same as matrix products and one-pass operators, which keep their s x s tensors for the backward pass."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention output, shape (batch, heads, s, head_dim) as each input."""
        scores = torch.matmul(query, key.transpose(-2, -1)) * query.shape[-1] ** -0.5
        if self.causal:
            length = query.shape[-2]
            future = torch.ones((length, length), dtype=torch.bool, device=query.device).triu(1)
            scores = scores.masked_fill(future, float("-inf"))
        probabilities = functional.softmax(scores, dim=-1)
        return torch.matmul(functional.dropout(probabilities, self.dropout, self.training), value)


_CORES: dict[AttentionKind, type[FusedCore]] = {"fused": FusedCore, "eager": EagerCore}


class Rotary(nn.Module):
    """Cosines and sines of rotary positions, once per pass for all layers (Su et al. 2021, equation 34)."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.head_dim = head_dim

    def forward(self, tokens: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """For tokens (batch, s): two tensors (s, head_dim) of ``dtype``, computed in FP32."""
        places = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        pairs = torch.arange(0, self.head_dim, 2, device=tokens.device, dtype=torch.float32)
        angles = places.unsqueeze(-1) * torch.exp(pairs * (-math.log(ROTARY_BASE) / self.head_dim))
        angles = torch.cat((angles, angles), dim=-1)
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn each pair (i, i + head_dim / 2) of x (batch, heads, s, head_dim) by its position's angle."""
    cosines, sines = rotation
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat((-second, first), dim=-1) * sines


class Attention(nn.Module):
    """Self-attention with a projection each to queries, keys and values; key and value heads may be shared by groups."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {
        "query": "column:heads",
        "key": "column:kv_heads",
        "value": "column:kv_heads",
        "output": "row",
        "heads": "heads",
        "kv_heads": "heads",
    }

    def __init__(self, of: Architecture, core: AttentionKind) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = of.heads, of.kv_heads, of.head_dim
        llama = of.style == "llama"
        bias = of.qkv_bias if llama else True
        self.query = nn.Linear(of.hidden, self.heads * self.head_dim, bias)
        self.key = nn.Linear(of.hidden, self.kv_heads * self.head_dim, bias)
        self.value = nn.Linear(of.hidden, self.kv_heads * self.head_dim, bias)
        self.core = _CORES[core](of.causal, of.attention_dropout)
        self.output = nn.Linear(self.heads * self.head_dim, of.hidden, bias=not llama)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        query = _split(self.query(x), self.heads)
        key = _split(self.key(x), self.kv_heads)
        value = _split(self.value(x), self.kv_heads)
        if rotation is not None:
            query, key = rotate(query, rotation), rotate(key, rotation)
        if self.kv_heads != self.heads:
            key, value = (_share(tensor, self.heads // self.kv_heads) for tensor in (key, value))
        return self.output(_join(self.core(query, key, value)))


class JointAttention(nn.Module):
    """Self-attention with one projection to queries, keys and values, laid out head by head so that a slice is whole heads."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"qkv": "column:heads", "output": "row", "heads": "heads"}

    def __init__(self, of: Architecture, core: AttentionKind) -> None:
        super().__init__()
        self.heads = of.heads
        self.qkv = nn.Linear(of.hidden, 3 * of.hidden)
        self.core = _CORES[core](of.causal, of.attention_dropout)
        self.output = nn.Linear(of.hidden, of.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        query, key, value = _split(self.qkv(x), self.heads).chunk(3, dim=-1)
        return self.output(_join(self.core(query, key, value)))


def _split(x: Tensor, heads: int) -> Tensor:
    """(batch, s, heads x d) to (batch, heads, s, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def _share(x: Tensor, times: int) -> Tensor:
    """Each head ``times`` times in a row: (batch, heads, s, d) to (batch, heads x times, s, d), a copy."""
    return x.unsqueeze(2).expand(-1, -1, times, -1, -1).flatten(1, 2)


def _join(x: Tensor) -> Tensor:
    """(batch, heads, s, d) to (batch, s, heads x d)."""
    return x.transpose(1, 2).flatten(2)
