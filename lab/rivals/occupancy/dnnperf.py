"""Baseline in the style of DNNPerf: rounds of ANEE, which carry the edges' features along, and the mean over operators."""

from __future__ import annotations

from torch import Tensor, nn

from epochcast.analyzer.backends.occupancy.models.batching import GraphBatch
from epochcast.analyzer.backends.occupancy.models.dnn_occu import AneeLayer
from lab.rivals.occupancy.pooling import mean_over_present


class DnnPerf(nn.Module):
    """Three ANEE layers and an MLP. The DNN-occu paper does not give their number or width: here as wide as DNN-occu."""

    structured = False
    attends = False
    least_filled = 0.75

    def __init__(self, nodes: int, edges: int, width: int = 256, layers: int = 3) -> None:
        super().__init__()
        sizes = [(nodes, edges), *[(width, width)] * (layers - 1)]
        self.layers = nn.ModuleList(AneeLayer(of_nodes, of_edges, width) for of_nodes, of_edges in sizes)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        B, N, _ = batch.nodes.shape
        nodes, edges = batch.nodes.flatten(0, 1), batch.edge_features
        for layer in self.layers:
            nodes, edges = layer(nodes, batch.edges, edges)
        answer: Tensor = self.head(mean_over_present(nodes.view(B, N, -1), batch.present)).squeeze(1)
        return answer
