"""Baseline: an LSTM over the operators in the order of execution (section IV-D)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.models.batching import GraphBatch


class Lstm(nn.Module):
    """Two layers of 256 channels; the last one's state after the last operator is what an answer is made from."""

    structured = False
    attends = False
    least_filled = 0.5

    def __init__(self, nodes: int, edges: int, width: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.lstm = nn.LSTM(nodes, width, layers, batch_first=True)
        self.head = nn.Linear(width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        # Padding comes after the end, where it changes nothing; sequences packed without it train six times slower on a CPU.
        hidden, _ = self.lstm(batch.nodes)
        last = batch.present.sum(dim=1) - 1
        answer: Tensor = self.head(hidden[torch.arange(len(last), device=last.device), last]).squeeze(1)
        return answer
