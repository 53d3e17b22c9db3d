"""From an architecture to its module and to inputs that it takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from epochcast.analyzer.backends.distributed.job import Attention
from epochcast.analyzer.backends.distributed.models.architecture import Architecture
from epochcast.analyzer.backends.distributed.models.resnet import ResNet
from epochcast.analyzer.backends.distributed.models.transformer import Transformer
from epochcast.analyzer.errors import InputError


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
    if of.style != "llama" and sequence_length > of.positions:
        raise InputError(
            f"a sequence of {sequence_length} tokens is longer than the {of.positions} positions of {of.name or of.style}; "
            "give a shorter one or a model with more positions"
        )
    ids, targets = (torch.randint(of.vocab, (batch, sequence_length), device=device) for _ in range(2))
    return ids, targets
