"""Features that tell how alike two jobs are: few, smooth, and of the source profile alone."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .derived import SourceFeatures, usable_metrics
from .pairs import Pair

# Quartiles and logs of the same quantity only add distance between rows that are alike, static attributes name the GPU.
SMOOTH: tuple[str, ...] = (
    *(f"gpu_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
    *(f"memory_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
    "memory_per_gpu_utilization_log",
    *(f"power_{name}_per_tdp" for name in ("mean", "std", "max")),
    "sm_clock_mean_per_boost",
)
"""Names of the smooth features, in the order of the columns of :func:`smooth_features`."""

_FEATURES = SourceFeatures(("gpu_utilization", "memory_utilization", "power", "sm_clock"), SMOOTH, {})


def has_smooth_features(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Whether each pair's profile holds the metrics that the smooth features need, shape (n,)."""
    return np.array([usable_metrics(pair.source) >= set(_FEATURES.metrics) for pair in pairs], dtype=bool)


def smooth_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Of profiles that have them, shape (n, len(SMOOTH))."""
    return _FEATURES.matrix(pairs)
