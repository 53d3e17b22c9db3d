"""Baseline: a transformer's encoder over the operators in the order of execution (section IV-D)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.models.batching import GraphBatch
from lab.rivals.occupancy.pooling import mean_over_present


class GraphTransformer(nn.Module):
    """Three encoder layers of four heads and 512 channels in the feed-forward network; the mean over operators is read.

    The paper does not give the width of a row; positions are encoded by sines, as in the first transformer.
    """

    structured = False
    attends = True
    least_filled = 0.75

    def __init__(
        self, nodes: int, edges: int, width: int = 256, layers: int = 3, heads: int = 4, feed_forward: int = 512
    ) -> None:
        super().__init__()
        self.embedding = nn.Linear(nodes, width)
        layer = nn.TransformerEncoderLayer(width, heads, feed_forward, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        embedded = self.embedding(batch.nodes)
        places = positions(embedded.shape[1], embedded.shape[2]).to(embedded)
        encoded = self.encoder(embedded + places, src_key_padding_mask=~batch.present)
        answer: Tensor = self.head(mean_over_present(encoded, batch.present)).squeeze(1)
        return answer


def positions(n: int, width: int) -> Tensor:
    """Sines and cosines of places 0 to n−1 at rates from 1 to 1/10000, shape (n, width)."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    angles = torch.arange(n)[:, None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
