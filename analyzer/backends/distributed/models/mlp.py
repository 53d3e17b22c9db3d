"""The MLP of a block, plain and gated."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional

from .architecture import Activation, Architecture

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": partial(functional.gelu, approximate="tanh"),
    "relu": functional.relu,
}


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
