"""The repeated part of a transformer, with its MLP, plain and gated, and RMSNorm."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.backends.distributed.job import Attention as AttentionKind
from epochcast.analyzer.backends.distributed.models.architecture import Activation, Architecture
from epochcast.analyzer.backends.distributed.models.attention import Attention, JointAttention

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
}


class RMSNorm(nn.Module):
    """Root mean square normalisation, computed in FP32 for any input (Zhang and Sennrich 2019, equation 4)."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Shape (…, hidden) to the same, in the dtype that came in."""
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


class Mlp(nn.Module):
    """``down(activation(up(x)))`` (Vaswani et al. 2017, equation 2)."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"up": "column", "down": "row"}

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.up = nn.Linear(of.hidden, of.ffn)
        self.down = nn.Linear(of.ffn, of.hidden)
        self.activation = _ACTIVATIONS[of.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        return self.down(self.activation(self.up(x)))


class GatedMlp(nn.Module):
    """``down(activation(gate(x)) * up(x))`` without biases (Shazeer 2020, equation 6)."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"gate": "column", "up": "column", "down": "row"}

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.gate = nn.Linear(of.hidden, of.ffn, bias=False)
        self.up = nn.Linear(of.hidden, of.ffn, bias=False)
        self.down = nn.Linear(of.ffn, of.hidden, bias=False)
        self.activation = _ACTIVATIONS[of.activation]

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        return self.down(self.activation(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    """Norm before each part, rotary positions, gated MLP (Touvron et al. 2023, section 2.2)."""

    def __init__(self, of: Architecture, core: AttentionKind) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(of.hidden)
        self.attention = Attention(of, core)
        self.mlp_norm = RMSNorm(of.hidden)
        self.mlp = GatedMlp(of)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """Shape (batch, s, hidden) to the same; ``rotation`` as :class:`.attention.Rotary` answers it."""
        x = x + self.attention(self.attention_norm(x), rotation)
        return x + self.mlp(self.mlp_norm(x))


class PreNormBlock(nn.Module):
    """LayerNorm before each part, dropout after it: GPT-2 (Radford et al. 2019, section 2.3), OPT and ViT."""

    def __init__(self, of: Architecture, core: AttentionKind) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(of.hidden)
        # GPT-2 and ViT project to queries, keys and values at once, OPT one by one.
        self.attention = Attention(of, core) if of.style == "opt" else JointAttention(of, core)
        self.mlp_norm = nn.LayerNorm(of.hidden)
        self.mlp = Mlp(of)
        self.dropout = nn.Dropout(of.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.mlp(self.mlp_norm(x)))


class PostNormBlock(nn.Module):
    """LayerNorm after each part: BERT, as the transformer was first (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, of: Architecture, core: AttentionKind) -> None:
        super().__init__()
        self.attention = Attention(of, core)
        self.attention_norm = nn.LayerNorm(of.hidden)
        self.mlp = Mlp(of)
        self.mlp_norm = nn.LayerNorm(of.hidden)
        self.dropout = nn.Dropout(of.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Shape (batch, s, hidden) to the same."""
        x = self.attention_norm(x + self.dropout(self.attention(x)))
        return self.mlp_norm(x + self.dropout(self.mlp(x)))
