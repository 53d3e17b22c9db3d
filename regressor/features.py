"""Features of a pair: the paper's own, and the derived ones that the default recipe rests on."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .errors import InputError
from .gpus import FIGURES
from .pairs import Pair
from .profile import METRICS, STATISTICS, Profile

# What the derived features need; a profile without one of them is answered by the prior.
NEEDED_METRICS = ("gpu_utilization", "memory_utilization", "power", "sm_clock")

# Activity ratios that say how busy the GPU was, the one that the prior was checked with first. The first two are the share of
# time with any kernel running; sm_active is averaged over SMs and therefore lower.
BUSY = ("gpu_utilization", "gr_engine_active", "sm_active")

_DISTRIBUTION = ("mean", "std", "p25", "p50", "p75", "max")
_CLOCK = ("mean", "std", "min", "p50")
_STATIC = ("sm_count", "effective_flops", "memory_bandwidth", "boost_clock", "tdp")

# Logits of utilisations stay finite: nvidia-smi reads whole percents, half of one is its resolution.
_HALF_PERCENT = 0.005


def paper_features(pairs: Sequence[Pair]) -> pd.DataFrame:
    """Section III-C.1: statistics of the source's metrics, static attributes as source/target, source latency.

    Returns:
        One row per pair; columns ``<metric>_<statistic>`` in base units, ``<attribute>_ratio``, ``latency`` in seconds. NaN
        where a profile has no such metric, or an attribute is unknown or 0 on the target.
    """
    return pd.DataFrame([_paper_row(pair) for pair in pairs], columns=_PAPER_COLUMNS, dtype=np.float64)


_PAPER_COLUMNS = [
    *(f"{metric}_{statistic}" for metric in sorted(METRICS) for statistic in STATISTICS),
    *(f"{figure}_ratio" for figure in FIGURES),
    "latency",
]


def _paper_row(pair: Pair) -> dict[str, float]:
    row = {f"{metric}_{name}": value for metric, values in pair.source.metrics.items() for name, value in values.items()}
    for figure in FIGURES:
        source, target = getattr(pair.source_gpu, figure), getattr(pair.target_gpu, figure)
        if source is not None and target:
            row[f"{figure}_ratio"] = source / target
    if pair.source.epoch_s is None:
        raise InputError("the paper's features need the source's epoch seconds, and the profile has none; use recipe 'default'")
    row["latency"] = pair.source.epoch_s
    return row


def busy_share(profile: Profile) -> tuple[float, str | None]:
    """Return the share of time that the GPU was busy, and the metric that says so.

    Without any activity metric the share is 1: the job is then taken for GPU-bound, and the ratio for that of the GPUs.
    """
    for metric in BUSY:
        if metric in profile.metrics:
            return min(profile.metrics[metric]["mean"], 1.0), metric
    return 1.0, None


def prior_log_ratio(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Log of target/source seconds without any training data, shape (n,).

    T_t = T_s · [(1 − u) + u · R]: the idle share of an epoch stays, the busy share u scales with the GPUs. R is the ratio of
    arithmetic rates F_s/F_t, and once more sqrt(F_s·B_s / F_t·B_t) with memory bandwidth B; the logs of both are averaged.
    F gives no credit for dual issue (:attr:`~epochcast.regressor.gpus.Gpu.effective_flops`).
    """
    u = np.array([busy_share(pair.source)[0] for pair in pairs], dtype=np.float64)
    flops = np.array([pair.source_gpu.effective_flops / pair.target_gpu.effective_flops for pair in pairs], dtype=np.float64)
    bandwidth = np.array(
        [pair.source_gpu.memory_bandwidth / pair.target_gpu.memory_bandwidth for pair in pairs], dtype=np.float64
    )
    compute_bound = np.log((1 - u) + u * flops)
    balanced = np.log((1 - u) + u * np.sqrt(flops * bandwidth))
    mean: NDArray[np.float64] = (compute_bound + balanced) / 2
    return mean


def has_derived_features(profile: Profile) -> bool:
    """Whether the profile holds every metric of :data:`NEEDED_METRICS`."""
    return all(metric in profile.metrics for metric in NEEDED_METRICS)


DERIVED: tuple[str, ...] = (
    *(f"gpu_utilization_{name}" for name in _DISTRIBUTION),
    "gpu_utilization_logit",
    *(f"memory_utilization_{name}" for name in _DISTRIBUTION),
    "memory_utilization_logit",
    "memory_per_gpu_utilization_log",
    *(f"power_{name}_per_tdp" for name in _DISTRIBUTION),
    *(f"sm_clock_{name}_per_boost" for name in _CLOCK),
    *(f"{name}_log_ratio" for name in _STATIC),
    "prior_log_ratio",
)
"""Names of the derived features, in the order of the columns of :func:`derived_features`."""


def derived_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Features that carry over between GPUs, shape (n, len(DERIVED)).

    Utilisations and their logits, power over TDP, clock over boost clock, logs of static attributes source/target, and the
    zero-training prior. No latency: the ratio then holds for epochs, steps and neither alike. No temperature (it depends on the
    job before), no memory in use (frameworks allocate ahead, so it names the GPU).

    Raises:
        InputError: a profile lacks one of :data:`NEEDED_METRICS`.
    """
    prior = prior_log_ratio(pairs)
    rows = [[*_source_features(pair), *_static_features(pair)] for pair in pairs]
    return np.column_stack([np.array(rows, dtype=np.float64).reshape(len(pairs), len(DERIVED) - 1), prior])


def _source_features(pair: Pair) -> list[float]:
    metrics = pair.source.metrics
    if missing := [metric for metric in NEEDED_METRICS if metric not in metrics]:
        raise InputError(f"the profile of {pair.source.gpu} lacks {', '.join(missing)}; training needs them in every profile")
    gpu, memory, power, clock = (metrics[metric] for metric in NEEDED_METRICS)
    return [
        *_picked(gpu, _DISTRIBUTION, 1.0),
        _logit(gpu["mean"]),
        *_picked(memory, _DISTRIBUTION, 1.0),
        _logit(memory["mean"]),
        float(np.log((memory["mean"] + 0.01) / (gpu["mean"] + 0.01))),
        *_picked(power, _DISTRIBUTION, pair.source_gpu.tdp),
        *_picked(clock, _CLOCK, pair.source_gpu.boost_clock),
    ]


def _static_features(pair: Pair) -> list[float]:
    return [float(np.log(getattr(pair.source_gpu, name) / getattr(pair.target_gpu, name))) for name in _STATIC]


def _picked(values: Mapping[str, float], names: Sequence[str], scale: float) -> list[float]:
    return [values[name] / scale for name in names]


def _logit(share: float) -> float:
    clipped = float(np.clip(share, _HALF_PERCENT, 1 - _HALF_PERCENT))
    return float(np.log(clipped / (1 - clipped)))
