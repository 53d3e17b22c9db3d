"""The transformers: the parts before the blocks, the blocks, the parts after them."""

from __future__ import annotations

from collections.abc import Callable

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
