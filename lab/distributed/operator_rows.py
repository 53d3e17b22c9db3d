"""Rows of measured operators that only fits and other people's tables need."""

from __future__ import annotations

import pandas as pd

from epochcast.analyzer.backends.distributed.models.graph import DTYPE_BYTES
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS

FAMILIES = ("linear", "bmm", "attention", "convolution", "normalisation", "softmax", "elementwise")
"""Operators whose times follow one law. ``linear``: one matrix product; ``bmm``: a batch; ``attention``: the fused kernel;
``elementwise``: all else that takes one pass over memory (copies, gathers, reductions, casts and losses too)."""


_LARGEST_SIDE, _LEAST_SIDE, _LEAST_FLOPS = 16384, 32, 1e9


def pass_row(family: str, rows: int, columns: int, dtype: str, tensors: float) -> tuple[object, ...]:
    """The row of an operator that takes one pass over memory; ``tensors``: how many of its size it reads and writes."""
    element = DTYPE_BYTES["float32" if dtype == "tf32" else dtype]
    return family, 1, rows, columns, 1, 0.0, rows * columns * tensors * element, dtype


def is_typical(shapes: pd.DataFrame) -> pd.Series:
    """Which rows are of sizes that a training spends its time in: all but products that are tiny, thin or of vast sides."""
    sides = shapes[["m", "n", "k"]]
    typical = (sides.max(axis=1) <= _LARGEST_SIDE) & (sides.min(axis=1) >= _LEAST_SIDE) & (shapes["flops"] >= _LEAST_FLOPS)
    return typical | ~shapes["family"].isin(PRODUCTS)
