"""DNN-occu: one ANEE layer, two Graphormer layers, the Set Transformer decoder and an MLP (sections III-D and V)."""

from __future__ import annotations

from torch import Tensor, nn

from .anee import AneeLayer
from .batching import GraphBatch
from .graphormer import DegreeEmbedding, GraphormerLayer, RelationBias
from .set_transformer import SetDecoder


class DnnOccu(nn.Module):
    """The paper's network; its number of heads and of seeds, and the MLP's layers, are not given there.

    Args:
        nodes: features of an operator.
        edges: features of an edge.
        width: of all layers ("hidden dimension").
        layers: of Graphormer.
        heads: of every attention.
        seeds: rows that the decoder pools into.
    """

    structured = True
    attends = True
    least_filled = 0.75

    def __init__(self, nodes: int, edges: int, width: int = 256, layers: int = 2, heads: int = 4, seeds: int = 4) -> None:
        super().__init__()
        self.anee = AneeLayer(nodes, edges, width)
        self.degrees = DegreeEmbedding(width)
        self.relations = RelationBias(heads)
        self.graphormer = nn.ModuleList(GraphormerLayer(width, heads) for _ in range(layers))
        self.decoder = SetDecoder(width, heads, seeds)
        self.head = nn.Sequential(nn.Linear(seeds * width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: GraphBatch) -> Tensor:
        """One number per graph, shape (B,)."""
        B, N, _ = batch.nodes.shape
        flat, _ = self.anee(batch.nodes.flatten(0, 1), batch.edges, batch.edge_features)
        hidden = flat.view(B, N, -1) + self.degrees(batch.edges_in, batch.edges_out)
        bias = self.relations(batch.relations)
        for layer in self.graphormer:
            hidden = layer(hidden, bias)
        answer: Tensor = self.head(self.decoder(hidden, batch.present).flatten(1)).squeeze(1)
        return answer
