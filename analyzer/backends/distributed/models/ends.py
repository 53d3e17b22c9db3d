"""The parts before and after a transformer's blocks: embeddings, the last norm, the head and the loss."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from epochcast.analyzer.backends.distributed.loss_operator import cross_entropy
from epochcast.analyzer.backends.distributed.models.architecture import BERT_TYPES, OPT_SPARE_POSITIONS, Architecture
from epochcast.analyzer.backends.distributed.models.blocks import RMSNorm

USUAL_POSITIONS = 2048
"""Learned positions where neither the model nor a job says how many (Brown et al. 2020, section 2.1)."""


class CrossEntropy(nn.Module):
    """Mean cross-entropy: built on meta it is one fused operator, built on a device that computes torch's own in FP32."""

    def __init__(self) -> None:
        super().__init__()
        self.fused = torch.empty(0).is_meta

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Shapes (…, classes) and (…) to a scalar."""
        if self.fused:
            return cross_entropy(logits.flatten(0, -2), targets.flatten())
        return functional.cross_entropy(logits.flatten(0, -2).float(), targets.flatten())


class TokenEmbedding(nn.Module):
    """Tokens, and the positions, segments and norm that the style adds to them."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"tokens": "vocabulary"}

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.tokens = _table(of.vocab, of.hidden)
        self.first_position = OPT_SPARE_POSITIONS if of.style == "opt" else 0
        self.positions = (
            None if of.style == "llama" else _table((of.positions or USUAL_POSITIONS) + self.first_position, of.hidden)
        )
        self.types = _table(BERT_TYPES, of.hidden) if of.style == "bert" else None
        self.norm = nn.LayerNorm(of.hidden) if of.style == "bert" else None
        self.dropout = nn.Dropout(of.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """Tokens (batch, s) to (batch, s, hidden)."""
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device) + self.first_position)
        if self.types is not None:
            x = x + self.types(torch.zeros_like(ids))
        return self.dropout(x if self.norm is None else self.norm(x))


class TokenHead(nn.Module):
    """The last norm, the logits of the next token and their loss."""

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"head": "vocabulary"}

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.norm = RMSNorm(of.hidden) if of.style == "llama" else nn.LayerNorm(of.hidden)
        self.head = nn.Linear(of.hidden, of.vocab, bias=False)
        self.loss = CrossEntropy()

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """Shapes (batch, s, hidden) and (batch, s) to the scalar loss."""
        return self.loss(self.head(self.norm(x)), targets)


class MaskedTokenHead(nn.Module):
    """BERT's head for masked tokens: a dense layer, GELU, a norm and the logits (Devlin et al. 2019, section 3.1).

    Logits are computed of all positions, masked or not, as transformers does; no pooler, no next-sentence head.
    """

    TENSOR_PARALLEL: ClassVar[dict[str, str]] = {"head": "vocabulary"}

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.dense = nn.Linear(of.hidden, of.hidden)
        self.norm = nn.LayerNorm(of.hidden)
        self.head = nn.Linear(of.hidden, of.vocab)
        self.loss = CrossEntropy()

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """Shapes (batch, s, hidden) and (batch, s) to the scalar loss."""
        return self.loss(self.head(self.norm(functional.gelu(self.dense(x)))), targets)


class PatchEmbedding(nn.Module):
    """An image as a row of patches with a class token before them (Dosovitskiy et al. 2021, equation 1)."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, of.hidden, of.patch, stride=of.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, of.hidden))
        self.positions = nn.Parameter(torch.zeros(1, (of.image_size // of.patch) ** 2 + 1, of.hidden))
        self.dropout = nn.Dropout(of.dropout)

    def forward(self, images: Tensor) -> Tensor:
        """Images (batch, 3, side, side) to (batch, patches + 1, hidden)."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(x.shape[0], -1, -1), x), dim=1)
        return self.dropout(x + self.positions)


class ClassHead(nn.Module):
    """The last norm, the class token's logits and their loss (Dosovitskiy et al. 2021, equation 4)."""

    def __init__(self, of: Architecture) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(of.hidden)
        self.head = nn.Linear(of.hidden, of.classes)
        self.loss = CrossEntropy()

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Shapes (batch, patches + 1, hidden) and (batch,) to the scalar loss."""
        return self.loss(self.head(self.norm(x).select(1, 0)), labels)


def _table(rows: int, hidden: int) -> nn.Embedding:
    table = nn.Embedding(rows, hidden)
    nn.init.normal_(table.weight, std=0.02)  # Radford et al. 2018; torch's 1.0 gives a tied head absurd logits
    return table
