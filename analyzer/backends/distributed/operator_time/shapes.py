"""Operators as rows of one table, whether they come from a graph or from a file of measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.graph import DTYPE_BYTES, Operator
from epochcast.analyzer.backends.distributed.operator_time.calibrated import products_of

SHAPE_COLUMNS = ("family", "batch", "m", "n", "k", "flops", "bytes", "dtype")
"""``m, n, k`` of a product (batch, m, k) x (batch, k, n); of other families ``m`` rows of ``n`` elements, ``k`` 1. ``bytes`` is
the least traffic. ``dtype`` is torch's name, or ``tf32`` for FP32 products on TF32 tensor cores."""

PRODUCTS = ("linear", "bmm")


def shapes_of(operators: Sequence[Operator], tf32: bool = False) -> pd.DataFrame:
    """One row of :data:`SHAPE_COLUMNS` per operator.

    Fused attention counts as a batch of products with its FLOPs and its own traffic, for its scores never leave the chip; so
    does a convolution, as an implicit product.
    """
    return pd.DataFrame([_row(operator, tf32) for operator in operators], columns=list(SHAPE_COLUMNS))


def product_row(batch: int, m: int, n: int, k: int, dtype: str, size: float | None = None) -> tuple[object, ...]:
    """The row of a matrix product; ``size``: its bytes where they are not those of the three matrices."""
    if size is None:
        size = float(batch * (m * k + k * n + m * n)) * _element(dtype)
    return "linear" if batch == 1 else "bmm", batch, m, n, k, 2.0 * batch * m * n * k, size, dtype


def _element(dtype: str) -> int:
    return DTYPE_BYTES["float32" if dtype == "tf32" else dtype]


def _row(operator: Operator, tf32: bool) -> tuple[object, ...]:
    dtype = operator.dtype if "float" in operator.dtype else "float32"  # integers move as fast
    if operator.kind in ("matmul", "attention", "convolution"):
        batch, m, n, k = products_of(operator)
        if operator.kind != "matmul":
            k = max(round(operator.flops / (2.0 * batch * m * n)), 1)
        row = product_row(batch, m, n, k, "tf32" if tf32 and dtype == "float32" else dtype, operator.bytes)
        return (*row[:5], operator.flops, *row[6:])
    shapes = [tensor.shape for tensor in (*operator.inputs, *operator.outputs) if tensor.shape]
    largest = max(shapes, key=math.prod, default=(1,))
    family = operator.kind if operator.kind in ("normalisation", "softmax") else "elementwise"
    columns = _channel_size(largest) if "batch_norm" in operator.name else largest[-1]
    rows = math.prod(largest) // max(columns, 1)
    return family, 1, max(rows, 1), max(columns, 1), 1, 0.0, max(operator.bytes, 1.0), dtype


def _channel_size(shape: tuple[int, ...]) -> int:
    """Elements that batch normalisation averages over: all but the channels."""
    return math.prod(shape) // shape[1] if len(shape) > 1 else shape[0]


def places_by(table: pd.DataFrame, first: str, second: str) -> dict[tuple[str, str], NDArray[np.intp]]:
    """Row numbers of each pair of values in two columns of text."""
    keys = pd.MultiIndex.from_frame(table[[first, second]])
    codes, pairs = keys.factorize()
    return {(str(left), str(right)): np.flatnonzero(codes == code) for code, (left, right) in enumerate(pairs)}


def check_finite(shapes: pd.DataFrame) -> pd.Series:
    """Which rows have positive, finite sizes."""
    figures = shapes[["batch", "m", "n", "k", "bytes"]].to_numpy(dtype=float)
    return pd.Series(np.isfinite(figures).all(axis=1) & (figures > 0).all(axis=1), index=shapes.index)
