"""From an architecture to its module and to inputs that it takes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.job import Attention
from epochcast.analyzer.backends.distributed.models.architecture import Architecture, Style
from epochcast.analyzer.backends.distributed.models.attention import Rotary
from epochcast.analyzer.backends.distributed.models.blocks import LlamaBlock, PostNormBlock, PreNormBlock
from epochcast.analyzer.backends.distributed.models.ends import (
    ClassHead,
    MaskedTokenHead,
    PatchEmbedding,
    TokenEmbedding,
    TokenHead,
)
from epochcast.analyzer.backends.distributed.models.resnet import ResNet
from epochcast.analyzer.errors import InputError

_PARTS: dict[Style, tuple[Callable[..., nn.Module], Callable[..., nn.Module], Callable[..., nn.Module]]] = {
    "llama": (TokenEmbedding, LlamaBlock, TokenHead),
    "gpt2": (TokenEmbedding, PreNormBlock, TokenHead),
    "opt": (TokenEmbedding, PreNormBlock, TokenHead),
    "bert": (TokenEmbedding, PostNormBlock, MaskedTokenHead),
    "vit": (PatchEmbedding, PreNormBlock, ClassHead),
}


class Transformer(nn.Module):
    """A transformer with its loss: ``model(inputs, targets)`` is the scalar to train on."""

    def __init__(self, of: Architecture, core: Attention, layers: int) -> None:
        super().__init__()
        before, block, after = _PARTS[of.style]
        self.rotary = Rotary(of.head_dim) if of.style == "llama" else None
        self.before = before(of)
        self.blocks = nn.ModuleList(block(of, core) for _ in range(layers))
        self.after = after(of)
        if of.tied:
            self.after.head.weight = self.before.tokens.weight

    def forward(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Tokens (batch, s) with targets of the same shape, or images (batch, 3, side, side) with labels (batch,)."""
        # Every block reads the same angles. They come first, so that the last tensor before the blocks is what goes into them.
        shared = () if self.rotary is None else (self.rotary(inputs, self.before.tokens.weight.dtype),)
        x = self.before(inputs)
        for block in self.blocks:
            x = block(x, *shared)
        return self.after(x, targets)


def build(of: Architecture, attention: Attention = "fused", layers: int | None = None, device: str = "meta") -> nn.Module:
    """Build the module in training mode, FP32, with initial weights if ``device`` holds values.

    Its attributes ``before``, ``blocks`` (a ModuleList) and ``after`` are called in this order; ``module(*example_inputs(…))``
    is the scalar loss. Module classes say in ``TENSOR_PARALLEL`` which children and attributes tensor parallelism splits:
    ``column`` (outputs; ``column:NAME`` by whole heads, as many as attribute NAME), ``row`` (inputs), ``vocabulary`` (rows of
    an embedding, outputs of a head), ``heads`` (a count).

    Args:
        of: the architecture.
        attention: ``fused`` (one operator) or ``eager`` (matrix products and softmax).
        layers: build only so many of the blocks, where all are alike (:attr:`.architecture.Architecture.alike`).
        device: where the weights lie.

    Raises:
        InputError: ``layers`` of a model whose blocks differ.
    """
    with torch.device(device):
        if of.style == "resnet":
            if layers is not None:
                raise InputError(f"the blocks of {of.name or 'a resnet'} differ; build all {of.layers}, not {layers}")
            return ResNet(of)
        return Transformer(of, attention, of.layers if layers is None else layers)


def example_inputs(of: Architecture, batch: int, sequence_length: int, device: str = "meta") -> tuple[Tensor, Tensor]:
    """Inputs and targets of one micro-batch: random where ``device`` holds values.

    Token ids and targets, both (batch, sequence_length) int64; or images (batch, 3, side, side) FP32 and labels (batch,).

    Raises:
        InputError: the sequence is longer than the model's learned positions.
    """
    if of.images:
        images = torch.randn(batch, 3, of.image_size, of.image_size, device=device)
        return images, torch.randint(of.classes, (batch,), device=device)
    require_positions(of, sequence_length)
    ids, targets = (torch.randint(of.vocab, (batch, sequence_length), device=device) for _ in range(2))
    return ids, targets


def require_positions(of: Architecture, sequence_length: int) -> None:
    """Raise InputError if the sequence is longer than the model's learned positions."""
    if of.style != "llama" and of.positions and sequence_length > of.positions:
        raise InputError(
            f"a sequence of {sequence_length} tokens is longer than the {of.positions} positions of {of.name or of.style}; "
            "give a shorter one or a model with more positions"
        )
