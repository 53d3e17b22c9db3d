"""DNN-occu: one ANEE layer, two Graphormer layers, the Set Transformer decoder and an MLP (sections III-D and V).

Graphormer's attention between all operators knows how many hops lie between them; the decoder makes a few vectors of any number
of operators, in any order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from lab.occupancy.batching import GraphBatch
from lab.occupancy.structure import MOST_EDGES, RELATIONS


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


def feed_forward(width: int) -> nn.Sequential:
    """Two dense layers of the same width, as in Graphormer; shape (…, width) -> (…, width)."""
    return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))


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
        for embedding in (self.of_in, self.of_out):
            nn.init.normal_(embedding.weight, std=0.02)

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


class AneeLayer(nn.Module):
    """One round of messages along the edges: the attention-based node-edge encoder of DNNPerf (section III-D).

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
