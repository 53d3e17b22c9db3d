"""The blocks that a network is a sequence of (section 4.1.2)."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn


def top_blocks(network: nn.Module) -> list[str]:
    """Paths of the blocks in their order: the network's own parts, and instead of a plain sequence or list what it holds.

    Subclasses of a sequence are blocks: such as torchvision's convolution with its norm and activation.
    """
    return list(_blocks(network, ""))


def _blocks(module: nn.Module, path: str) -> Iterator[str]:
    for name, child in module.named_children():
        below = f"{path}{name}"
        if type(child) in (nn.Sequential, nn.ModuleList):
            yield from _blocks(child, f"{below}.")
        else:
            yield below
