"""Cross-entropy as one operator, as Megatron-LM, flash-attn and Liger run it: logits keep their dtype, gradients their place.

torch's own cast, softmax and loss keep and move FP32 copies of the logits, several times as much.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

torch.library.define("epochcast::cross_entropy", "(Tensor logits, Tensor targets) -> Tensor")
torch.library.define("epochcast::cross_entropy_backward", "(Tensor gradient, Tensor logits, Tensor targets) -> Tensor")
# Shapes and no kernel: they are only ever traced.
cross_entropy = torch.ops.epochcast.cross_entropy.default
cross_entropy_backward = torch.ops.epochcast.cross_entropy_backward.default


@torch.library.register_fake("epochcast::cross_entropy")
def _(logits: Tensor, targets: Tensor) -> Tensor:
    """The mean over all targets, a scalar in FP32."""
    return logits.new_empty((), dtype=torch.float32)


@torch.library.register_fake("epochcast::cross_entropy_backward")
def _(gradient: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the logits."""
    return torch.empty_like(logits)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return cross_entropy_backward(gradient, *ctx.saved_tensors), None


torch.library.register_autograd("epochcast::cross_entropy", _backward, setup_context=_keep)


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
