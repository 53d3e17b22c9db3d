"""The feed-forward network that transformers apply to each row on its own (FFN in section III-D)."""

from __future__ import annotations

from torch import nn


def feed_forward(width: int) -> nn.Sequential:
    """Two dense layers of the same width, as in Graphormer; shape (…, width) -> (…, width)."""
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
