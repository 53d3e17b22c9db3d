"""Baseline: a multilayer perceptron on the mean of a graph's node features (section IV-D)."""

from __future__ import annotations

from itertools import pairwise

from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.models.batching import GraphBatch
from lab.rivals.occupancy.pooling import mean_over_present


class GraphMlp(nn.Module):
    """Four layers, 80, 512, 512 and 256 wide. How the paper makes one row of many operators is not said: here by their mean."""

    structured = False
    attends = False
    least_filled = 0.0

    def __init__(self, nodes: int, edges: int, widths: tuple[int, ...] = (80, 512, 512, 256)) -> None:
        super().__init__()
        dense = [layer for before, after in pairwise((nodes, *widths)) for layer in (nn.Linear(before, after), nn.ReLU())]
        self.layers = nn.Sequential(*dense, nn.Linear(widths[-1], 1))

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        answer: Tensor = self.layers(mean_over_present(batch.nodes, batch.present)).squeeze(1)
        return answer
