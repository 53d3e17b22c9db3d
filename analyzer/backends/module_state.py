"""The tensors that a module keeps, to call it with others in their place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from torch import Tensor, nn


def named_tensors(root: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Parameters and buffers by name, each place that holds one exactly once.

    A tensor that two modules share comes twice, those of a module that has two names come once: put in their place by both
    names, ``torch.func.functional_call`` would leave what was put there.
    """
    for path, module in root.named_modules():
        for name, tensor in chain(module._parameters.items(), module._buffers.items()):
            if tensor is not None:
                yield f"{path}.{name}" if path else name, tensor
