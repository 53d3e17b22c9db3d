"""The Graphormer layer of section III-D: attention between all operators, which knows how many hops lie between them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .feed_forward import feed_forward
from .structure import MOST_EDGES, RELATIONS


class RelationBias(nn.Module):
    """A learned number per relation and head that is added to the attention's scores, the same in all layers.

    The DNN-occu paper leaves the structural bias to Graphormer's authors: shortest-path distances (their Eq. 6).
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.of_relation = nn.Parameter(0.02 * torch.randn(heads, RELATIONS))

    def forward(self, relations: Tensor) -> Tensor:
        """Shape (B, N, N) -> (B, heads, N, N); −∞ towards operators that are not there."""
        padding = self.of_relation.new_full((len(self.of_relation), 1), -torch.inf)
        # Heads first: three times faster than an embedding, whose gradient adds up one pair of operators after the other.
        return torch.cat([self.of_relation, padding], dim=1)[:, relations].transpose(0, 1)


class DegreeEmbedding(nn.Module):
    """How many edges lead into and out of an operator, as vectors that are added to it (Graphormer's Eq. 5)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.of_in = nn.Embedding(MOST_EDGES + 1, width)
        self.of_out = nn.Embedding(MOST_EDGES + 1, width)
        for one in (self.of_in, self.of_out):
            nn.init.normal_(one.weight, std=0.02)

    def forward(self, edges_in: Tensor, edges_out: Tensor) -> Tensor:
        """Shape (B, N) twice -> (B, N, width)."""
        embedded: Tensor = self.of_in(edges_in) + self.of_out(edges_out)
        return embedded


class GraphormerLayer(nn.Module):
    """Layer norm before each of two residual parts: h̄ = MHA(LN(h)) + h, then FFN(LN(h̄)) + h̄."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.joined = nn.Linear(width, width)
        self.before_feed_forward = nn.LayerNorm(width)
        self.feed_forward = feed_forward(width)

    def forward(self, nodes: Tensor, bias: Tensor) -> Tensor:
        """One layer.

        Args:
            nodes: shape (B, N, width).
            bias: added to the scores, shape (B, heads, N, N).
        """
        B, N, width = nodes.shape
        parts = self.query_key_value(self.before_attention(nodes)).view(B, N, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        nodes = self.joined(seen.transpose(1, 2).reshape(B, N, width)) + nodes
        answer: Tensor = self.feed_forward(self.before_feed_forward(nodes)) + nodes
        return answer
