"""Operators of random sizes, so that a corpus holds shapes that no built-in model has."""

from __future__ import annotations

import random
from collections.abc import Iterator

from ..attention_operator import attention_flops
from ..graph import Operator, Tensor

_SMALLEST, _LARGEST = 5, 13  # powers of two that sizes lie between
_HEAD_DIMS = (64, 96, 128)


def random_operators(dtype: str, rng: random.Random) -> Iterator[Operator]:
    """Endlessly, in turn: a matrix product, a batch of them, attention, a norm, softmax, an addition and an activation.

    Sizes are uniform in their logarithm; of every other operator they are rounded up to multiples of 64, as those of models
    are.
    """
    aligned = True
    while True:
        aligned = not aligned

        def size(low: int = _SMALLEST, high: int = _LARGEST, to: int = 64 if aligned else 1) -> int:
            return -(-int(2 ** rng.uniform(low, high)) // to) * to

        rows, columns, inner, batch = size(), size(), size(), rng.choice((4, 8, 16, 32, 64))
        x, gain = Tensor((rows, columns), dtype), Tensor((columns,), dtype)
        yield _product((rows, inner), (inner, columns), dtype)
        length, width = size(6, 11), rng.choice(_HEAD_DIMS)
        yield _product((batch, length, width), (batch, width, length), dtype)
        heads = Tensor((rng.choice((1, 2, 4)), rng.choice((8, 12, 16, 32)), length, width), dtype)
        causal = rng.random() < 0.7
        flops = attention_flops(heads.shape, heads.shape, heads.shape, backward=False, causal=causal)
        arguments = (heads, heads, heads, None, 0.0, causal)
        yield Operator("epochcast.attention", "attention", "forward", (heads,) * 3, (heads,), flops, arguments=arguments)
        norm = (x, (columns,), gain, gain, 1e-5)
        yield Operator("aten.native_layer_norm.default", "normalisation", "forward", (x, gain, gain), (x,), arguments=norm)
        yield Operator("aten._softmax.default", "softmax", "forward", (x,), (x,), arguments=(x, -1, False))
        yield Operator("aten.add.Tensor", "elementwise", "forward", (x, x), (x,), arguments=(x, x))
        yield Operator("aten.gelu.default", "elementwise", "forward", (x,), (x,), arguments=(x, "tanh"))


def _product(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> Operator:
    a, b, c = Tensor(left, dtype), Tensor(right, dtype), Tensor((*left[:-1], right[-1]), dtype)
    name = "aten.mm.default" if len(left) == 2 else "aten.bmm.default"
    return Operator(name, "matmul", "forward", (a, b), (c,), 2.0 * c.elements * left[-1], arguments=(a, b))
