"""Baseline in the style of BRP-NAS: graph convolutions over operator types alone."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from epochcast.analyzer.backends.network.operators import VOCABULARY
from epochcast.analyzer.backends.occupancy.models.batching import GraphBatch
from lab.rivals.occupancy.pooling import mean_over_present


class BrpNas(nn.Module):
    """Four graph convolutions and a dense layer.

    It sees which operators follow which, and neither sizes nor the GPU: it "overlooks runtime factors" (section IV-D), so all
    batch sizes of a network get one answer. The DNN-occu paper gives no width: here as wide as DNN-occu.
    """

    structured = False
    attends = False
    least_filled = 0.75

    def __init__(self, nodes: int, edges: int, width: int = 256, layers: int = 4) -> None:
        super().__init__()
        words = len(VOCABULARY)
        self.layers = nn.ModuleList(GCNConv(words if layer == 0 else width, width) for layer in range(layers))
        self.head = nn.Linear(width, 1)

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        B, N, _ = batch.nodes.shape
        nodes = batch.nodes.flatten(0, 1)[:, : len(VOCABULARY)]
        for layer in self.layers:
            nodes = functional.relu(layer(nodes, batch.edges))
        answer: Tensor = self.head(mean_over_present(nodes.view(B, N, -1), batch.present)).squeeze(1)
        return answer
