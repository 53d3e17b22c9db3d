"""Attention and cross-entropy as one operator each, forward and backward, whichever kernel a device has for them.

torch takes flash, memory-efficient or plain attention by device and shape; on the meta device it would always be the plain one.
Cross-entropy is as Megatron-LM, flash-attn and Liger run it: logits keep their dtype, gradients their place. torch's own cast,
softmax and loss keep and move FP32 copies of the logits, several times as much.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import flop_registry

torch.library.define(
    "epochcast::attention",
    "(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout, bool causal) -> (Tensor, Tensor)",
)
torch.library.define(
    "epochcast::attention_backward",
    "(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor answer, Tensor sums, float dropout, bool causal) "
    "-> (Tensor, Tensor, Tensor)",
)
# Shapes and no kernel: they are only ever traced.
attention = torch.ops.epochcast.attention.default
attention_backward = torch.ops.epochcast.attention_backward.default


@torch.library.register_fake("epochcast::attention")
def _(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float, causal: bool) -> tuple[Tensor, Tensor]:
    """The answer (batch, heads, s, d) and the log of the softmax's sums (batch, heads, s), which backward needs."""
    return _by_token(query, value.shape[-1]), query.new_empty(query.shape[:-1], dtype=torch.float32)


@torch.library.register_fake("epochcast::attention_backward")
def _(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, answer: Tensor, sums: Tensor, dropout: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of query, key and value."""
    return _by_token(query), _by_token(key), _by_token(value)


def _by_token(of: Tensor, width: int | None = None) -> Tensor:
    """As ``of`` (batch, heads, s, d), with the heads of a token side by side in memory, as the kernels write them."""
    batch, heads, length, usual = of.shape
    return of.new_empty((batch, length, heads, width or usual)).transpose(1, 2)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    query, key, value, _, ctx.dropout, ctx.causal = inputs
    ctx.save_for_backward(query, key, value, *output)


def _backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Any, ...]:
    return *attention_backward(gradient, *ctx.saved_tensors, ctx.dropout, ctx.causal), None, None, None


torch.library.register_autograd("epochcast::attention", _backward, setup_context=_keep)


def attention_flops(
    query: tuple[int, ...], key: tuple[int, ...], value: tuple[int, ...], backward: bool, causal: bool
) -> float:
    """FLOPs of fused attention: two matrix products forward, five backward (the scores are computed again).

    Dao et al. 2022 (FlashAttention), algorithms 1 and 4. Of a causal mask's scores the upper half is skipped (Dao 2023,
    FlashAttention-2, section 3.1).
    """
    batch_heads, length, width = query[0] * query[1], query[2], query[3]
    scores, mix = 2 * batch_heads * length * key[2] * width, 2 * batch_heads * length * key[2] * value[3]
    return (3 * scores + 2 * mix if backward else scores + mix) * (0.5 if causal else 1.0)


def flops_of(operator: Any, arguments: tuple[Any, ...], answer: Any) -> float:
    """FLOPs of any operator: of others than attention by torch's own registry (matrix products and convolutions), else 0."""
    if operator in (attention, attention_backward):
        backward = operator is attention_backward
        query, key, value = (tuple(tensor.shape) for tensor in arguments[1 if backward else 0 :][:3])
        return attention_flops(query, key, value, backward, causal=bool(arguments[-1]))
    count = flop_registry.get(operator._overloadpacket)
    return float(count(*arguments, out_val=answer)) if count is not None else 0.0


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


def _keep_logits(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _loss_backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
    return cross_entropy_backward(gradient, *ctx.saved_tensors), None


torch.library.register_autograd("epochcast::cross_entropy", _loss_backward, setup_context=_keep_logits)


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
