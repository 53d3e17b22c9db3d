"""The attention-based node-edge encoder (ANEE) of DNNPerf, as section III-D of the DNN-occu paper gives it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class AneeLayer(nn.Module):
    """One round of messages along the edges.

    With h̄ = LeakyReLU(W_u h): an edge from s to d becomes e' = σ(aᵀ(h̄_s ‖ h̄_d) · W_e e), and an operator
    h' = LeakyReLU(Σ softmax(W_m e') · h̄_s) over its edges from s.

    The paper does not say over what the softmax runs: here over the edges into one operator. And here each operator has an edge
    to itself, with zeros for features (the mean edge), as graph attention networks do. Else an operator that nothing leads to
    would be 0, and one with a single edge into it would not see that edge, whose weight would always be 1.

    Args:
        nodes: features of an operator.
        edges: features of an edge.
        width: of what both become.
    """

    def __init__(self, nodes: int, edges: int, width: int) -> None:
        super().__init__()
        self.of_node = nn.Linear(nodes, width)
        self.of_edge = nn.Linear(edges, width, bias=False)
        self.of_source = nn.Linear(width, 1, bias=False)
        self.of_target = nn.Linear(width, 1, bias=False)
        self.message = nn.Linear(width, 1, bias=False)

    def forward(self, nodes: Tensor, edges: Tensor, edge_features: Tensor) -> tuple[Tensor, Tensor]:
        """One round.

        Args:
            nodes: shape (n, nodes).
            edges: shape (2, e), from and to.
            edge_features: shape (e, edges).

        Returns:
            The operators, shape (n, width), and the edges, shape (e, width).
        """
        hidden = functional.leaky_relu(self.of_node(nodes))
        n = len(hidden)
        itself = torch.arange(n, device=edges.device)
        source, target = torch.cat([edges[0], itself]), torch.cat([edges[1], itself])
        agreement = self.of_source(hidden)[source] + self.of_target(hidden)[target]
        encoded = self.of_edge(edge_features)
        encoded = torch.sigmoid(agreement * torch.cat([encoded, encoded.new_zeros(n, encoded.shape[1])]))
        weight = softmax_by_target(self.message(encoded).squeeze(1), target, n)
        gathered = torch.zeros_like(hidden).index_add(0, target, weight[:, None] * hidden[source])
        return functional.leaky_relu(gathered), encoded[: edges.shape[1]]


def softmax_by_target(scores: Tensor, target: Tensor, n: int) -> Tensor:
    """Softmax over the edges into each of n operators, shape (e,) -> (e,)."""
    highest = scores.new_full((n,), -torch.inf).scatter_reduce(0, target, scores.detach(), "amax")
    grown = torch.exp(scores - highest[target])
    return grown / scores.new_zeros(n).index_add(0, target, grown)[target]
