"""Operators as rows of one table, whether they come from a graph or from a file of measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES, Operator
from epochcast.analyzer.backends.distributed.plan.job import Precision

SHAPE_COLUMNS = ("family", "batch", "m", "n", "k", "flops", "bytes", "dtype")
"""``m, n, k`` of a product (batch, m, k) x (batch, k, n); of other families ``m`` rows of ``n`` elements, ``k`` 1. ``bytes`` is
the least traffic. ``dtype`` is torch's name, or ``tf32`` or ``fp8`` for products on these tensor cores."""

PRODUCTS = ("linear", "bmm", "attention", "convolution")
"""Families that multiply: one matrix product, a batch of them, fused attention, a convolution as an implicit product."""


def shapes_of(operators: Sequence[Operator], precision: Precision, fused: bool = False) -> pd.DataFrame:
    """One row of :data:`SHAPE_COLUMNS` per operator.

    Fused attention is the product of its scores with its FLOPs and its own traffic, for its scores never leave the chip.

    Args:
        operators: that compute; communication has no shape.
        precision: whose products run on TF32's or FP8's tensor cores.
        fused: neighbouring operators of one pass are one kernel; all of its traffic is at the first, 0 at the others.
    """
    return pd.DataFrame([_row(operator, precision, fused) for operator in operators], columns=list(SHAPE_COLUMNS))


def products_of(operator: Operator) -> tuple[int, int, int, int]:
    """The matrix product ``(batch, m, n, k)`` that an operator is or amounts to; attention is its scores' product.

    A convolution is an implicit product: pixels x output channels x (input channels x kernel); its backward pass has two such.
    """
    if operator.kind == "matmul":
        return operator.gemm
    if operator.kind == "attention":
        query, key = operator.inputs[:2] if len(operator.inputs) < 6 else operator.inputs[1:3]
        return query.shape[0] * query.shape[1], query.shape[2], key.shape[2], query.shape[3]
    backward = operator.name.startswith("aten.convolution_backward")
    weight = operator.inputs[2 if backward else 1].shape
    image = operator.inputs[0] if backward else operator.outputs[0]
    return 1, image.shape[0] * math.prod(image.shape[2:]), weight[0], math.prod(weight[1:])


def product_row(batch: int, m: int, n: int, k: int, dtype: str) -> tuple[object, ...]:
    """The row of a matrix product; one in FP8 answers in BF16."""
    read, written = (1, 2) if dtype == "fp8" else (DTYPE_BYTES["float32" if dtype == "tf32" else dtype],) * 2
    size = float(batch * ((m * k + k * n) * read + m * n * written))
    return "linear" if batch == 1 else "bmm", batch, m, n, k, 2.0 * batch * m * n * k, size, dtype


def _row(operator: Operator, precision: Precision, fused: bool) -> tuple[object, ...]:
    dtype = operator.dtype if "float" in operator.dtype else "float32"  # integers move as fast
    if operator.kind in ("matmul", "attention", "convolution"):
        batch, m, n, k = products_of(operator)
        if operator.kind != "matmul":
            k = max(round(operator.flops / (2.0 * batch * m * n)), 1)
        family: str = operator.kind if operator.kind != "matmul" else "linear" if batch == 1 else "bmm"
        if precision.tf32 and dtype == "float32":
            dtype = "tf32"
        if precision.fp8 and operator.kind == "matmul" and batch == 1 and "head" not in operator.module:
            return product_row(1, m, n, k, "fp8")
        return family, batch, m, n, k, operator.flops, operator.bytes, dtype
    shapes = [tensor.shape for tensor in (*operator.inputs, *operator.outputs) if tensor.shape]
    largest = max(shapes, key=math.prod, default=(1,))
    family = operator.kind if operator.kind in ("normalisation", "softmax") else "elementwise"
    columns = largest[-1]
    if "batch_norm" in operator.name:  # it averages over all but the channels
        columns = math.prod(largest) // largest[1]
    rows = math.prod(largest) // max(columns, 1)
    traffic = operator.fused_bytes if fused else max(operator.bytes, 1.0)
    return family, 1, max(rows, 1), max(columns, 1), 1, 0.0, traffic, dtype


def places_by(table: pd.DataFrame, first: str, second: str) -> dict[tuple[str, str], NDArray[np.intp]]:
    """Row numbers of each pair of values in two columns of text."""
    keys = pd.MultiIndex.from_frame(table[[first, second]])
    codes, pairs = keys.factorize()
    return {(str(left), str(right)): np.flatnonzero(codes == code) for code, (left, right) in enumerate(pairs)}
