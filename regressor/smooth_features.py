"""Which derived features tell how alike two jobs are."""

from .features import DERIVED

# Few and smooth: quartiles and logs of the same quantity only add distance between rows that are alike. No static attribute:
# it names the GPU, not the job.
SMOOTH: tuple[int, ...] = tuple(
    DERIVED.index(name)
    for name in (
        *(f"gpu_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
        *(f"memory_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
        "memory_per_gpu_utilization_log",
        *(f"power_{name}_per_tdp" for name in ("mean", "std", "max")),
        "sm_clock_mean_per_boost",
    )
)
"""Columns of :func:`~epochcast.regressor.features.derived_features` that distances between jobs are taken over."""
