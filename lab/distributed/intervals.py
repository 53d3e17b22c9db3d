"""How often measured iterations are within the intervals that answers have."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.fitted_model import row_of


def inside(
    measured: NDArray[np.float64],
    predicted: NDArray[np.float64],
    bits: int,
    gpu: Literal["measured", "new"],
) -> float:
    """Share of iterations of products, seconds of shape (n,) each, within the interval of their row; NaN without any."""
    known = np.isfinite(predicted)
    errors = np.abs(np.log(measured[known] / predicted[known]))
    return float((errors <= math.log(row_of("products", bits, gpu).factor)).mean()) if known.any() else math.nan
