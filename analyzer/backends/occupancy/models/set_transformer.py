"""The Set Transformer decoder of section III-D: any number of operators becomes a few vectors, in whatever order they come."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .feed_forward import feed_forward


class AttentionBlock(nn.Module):
    """MAB(X, Y) = LN(H̄ + FFN(H̄)) with H̄ = LN(X + MHA(X, Y, Y))."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.after_attention = nn.LayerNorm(width)
        self.feed_forward = feed_forward(width)
        self.after_feed_forward = nn.LayerNorm(width)

    def forward(self, x: Tensor, y: Tensor, absent: Tensor | None = None) -> Tensor:
        """What x sees of y.

        Args:
            x: shape (B, k, width).
            y: shape (B, N, width).
            absent: which rows of y are padding, shape (B, N).
        """
        seen, _ = self.attention(x, y, y, key_padding_mask=absent, need_weights=False)
        hidden = self.after_attention(x + seen)
        answer: Tensor = self.after_feed_forward(hidden + self.feed_forward(hidden))
        return answer


class PoolingByAttention(nn.Module):
    """PMA_k(H) = MAB(S, FFN(H)) with k learned rows S."""

    def __init__(self, width: int, heads: int, seeds: int) -> None:
        super().__init__()
        self.seeds = nn.Parameter(nn.init.xavier_uniform_(torch.empty(seeds, width)))
        self.feed_forward = feed_forward(width)
        self.block = AttentionBlock(width, heads)

    def forward(self, nodes: Tensor, present: Tensor) -> Tensor:
        """Shapes (B, N, width) and (B, N) -> (B, k, width)."""
        seeds = self.seeds.expand(len(nodes), -1, -1)
        pooled: Tensor = self.block(seeds, self.feed_forward(nodes), ~present)
        return pooled


class SetDecoder(nn.Module):
    """Decoder(H) = FFN(SAB(PMA_k(H))) with SAB(X) = MAB(X, X): the paper's two decoder layers are PMA and SAB."""

    def __init__(self, width: int, heads: int, seeds: int) -> None:
        super().__init__()
        self.pooling = PoolingByAttention(width, heads, seeds)
        self.block = AttentionBlock(width, heads)
        self.feed_forward = feed_forward(width)

    def forward(self, nodes: Tensor, present: Tensor) -> Tensor:
        """Shapes (B, N, width) and (B, N) -> (B, k, width)."""
        pooled = self.pooling(nodes, present)
        decoded: Tensor = self.feed_forward(self.block(pooled, pooled))
        return decoded
