"""CLIP as the paper runs it: both towers in one step, one after the other, without the product of their answers."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn


class Clip(nn.Module):
    """An image tower of timm's and transformers' text tower with its default configuration.

    Args:
        image_tower: takes an image, answers features.
        text_tower: takes tokens, answers an object with ``last_hidden_state``.
    """

    def __init__(self, image_tower: nn.Module, text_tower: nn.Module) -> None:
        super().__init__()
        self.image = image_tower
        self.text = text_tower

    def forward(self, image: Tensor, tokens: Tensor) -> tuple[Any, Any]:
        """Features of images (batch, channels, side, side) and of tokens (batch, sequence)."""
        return self.image(image), self.text(tokens).last_hidden_state
