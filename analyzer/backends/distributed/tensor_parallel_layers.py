"""Layers that hold one tensor rank's slice and mark what the ranks exchange (Shoeybi et al. 2019, section 3).

Each takes the place of the layer whose ``slice_weight`` made its weights, under the same path and with the same calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional

from . import markers

SEQUENCE_AXIS = 1
"""Activations are (batch, sequence, hidden)."""


@dataclass
class Region:
    """Where activations enter what the tensor ranks share out, and leave it; one per module that owns sliced layers.

    Layers that read one tensor (query, key and value) enter once, so that their gradients are added before they are reduced.
    """

    ranks: int
    sequence_parallel: bool = False
    _entered: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def enter(self, activations: Tensor) -> Tensor:
        """The activations in whole on every rank."""
        if self._entered is None or self._entered[0] is not activations:
            entered = (
                markers.all_gather(activations, self.ranks, SEQUENCE_AXIS)
                if self.sequence_parallel
                else markers.copy_to_tensor_ranks(activations, self.ranks)
            )
            self._entered = activations, entered
        return self._entered[1]

    def leave(self, partial: Tensor) -> Tensor:
        """The sum of the ranks' partial results, split along the sequence under sequence parallelism."""
        if self.sequence_parallel:
            return markers.reduce_scatter(partial, self.ranks, SEQUENCE_AXIS)
        return markers.all_reduce(partial, self.ranks)

    def forget(self, *_: object) -> None:
        """Let go of the activations; the owner's forward hook."""
        self._entered = None


class ColumnParallelLinear(nn.Linear):
    """Some of a linear layer's output features; every rank reads the whole input."""

    region: Region

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, in) to (…, out of this rank)."""
        return super().forward(self.region.enter(input))


class VocabularyParallelHead(ColumnParallelLinear):
    """The logits of some words, for a cross-entropy that is computed where they lie."""

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, hidden) to (…, words of this rank)."""
        logits = super().forward(input)
        # Per token and in FP32 the loss needs of all ranks the largest logit, the sum of exponentials and the target's logit.
        for _ in range(3):
            markers.all_reduce(logits.new_empty(logits.shape[:-1], dtype=torch.float32), self.region.ranks)
        return logits


class RowParallelLinear(nn.Linear):
    """Some of a linear layer's input features; the ranks' products are added up, then comes the bias."""

    region: Region

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…, in of this rank) to (…, out)."""
        answer = self.region.leave(functional.linear(input, self.weight))
        return answer if self.bias is None else answer + self.bias.to(answer.dtype)


class VocabularyParallelEmbedding(nn.Embedding):
    """Some rows of an embedding; the words of other ranks count as zero, and the ranks' answers are added up."""

    region: Region
    first: int
    """The first word of this rank."""

    def forward(self, input: Tensor) -> Tensor:
        """Shape (…) to (…, hidden)."""
        foreign = (input < self.first) | (input >= self.first + self.num_embeddings)
        rows = super().forward((input - self.first).masked_fill(foreign, 0))
        return markers.all_reduce(rows.masked_fill(foreign.unsqueeze(-1), 0.0), self.region.ranks)
