"""Derived features: what of a profile carries over between GPUs, whichever metrics its source offers.

The smooth ones measure how alike two jobs are: few, and of the source profile alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.regressor.features import BUSY, exclude, prior_log_ratio
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.pairs import Pair
from epochcast.regressor.profile import RATIOS, Profile

NOT_USED = {
    "temperature": "depends on the previous job and on the room",
    "memory_used": "identifies the GPU, because frameworks allocate ahead",
    "memory_free": "identifies the GPU, because frameworks allocate ahead",
    "bar1_used": "identifies the GPU",
    "bar1_free": "identifies the GPU",
    "memory_clock": "constant except for idle power states",
    "power_average": "replaces power where that is not read",
}
"""Metrics that a profile may hold and that no feature is derived from, with the reason."""

_DISTRIBUTION = ("mean", "std", "p25", "p50", "p75", "max")
_CLOCK = ("mean", "std", "min", "p50")
STATIC = ("sm_count", "effective_flops", "memory_bandwidth", "boost_clock", "tdp")

# Logits of utilisations stay finite: nvidia-smi reads whole percents, half of one is its resolution. Traffic counts from a
# megabyte a second on, by choice.
_HALF_PERCENT = 0.005
_MEGABYTE = 1e6
_RATIO_OF_UTILISATIONS = "memory_per_gpu_utilization_log"


def usable_metrics(profile: Profile) -> set[str]:
    """The metrics of a profile that features are derived from; ``power_average`` counts as ``power``."""
    held = set(profile.metrics)
    return (held - set(NOT_USED)) | ({"power"} if "power_average" in held else set())


def statistics_of(profile: Profile, metric: str) -> Mapping[str, float] | None:
    """Statistics of one of the :func:`usable_metrics`, ``None`` where the profile lacks it."""
    held = profile.metrics.get(metric)
    return profile.metrics.get("power_average") if held is None and metric == "power" else held


@dataclass(frozen=True)
class SourceFeatures:
    """The features of a source profile that a model uses.

    Attributes:
        metrics: the metrics they are derived from.
        columns: their names, those that the exclusion rule left.
        excluded: metric or column that is not used -> reason.
    """

    metrics: tuple[str, ...]
    columns: tuple[str, ...]
    excluded: Mapping[str, str]

    @classmethod
    def choose(cls, pairs: Sequence[Pair]) -> "SourceFeatures":
        """Take every metric that all source profiles hold, and of its columns those that the paper's exclusion rule keeps.

        A metric that keeps none (a counter that stands still in all of training) is not required of a profile either, but for
        metrics of activity, which the prior reads.
        """
        held = [usable_metrics(pair.source) for pair in pairs]
        everywhere, somewhere = set.intersection(*held), set.union(*(set(pair.source.metrics) for pair in pairs))
        excluded = {
            name: NOT_USED.get(name, f"in {sum(name in names for names in held)} of {len(held)} training pairs only")
            for name in sorted(somewhere - everywhere)
        }
        metrics = tuple(sorted(everywhere))
        unfiltered = cls(metrics, columns_of(metrics), {})
        kept, dropped = exclude(pd.DataFrame(unfiltered.matrix(pairs), columns=list(unfiltered.columns)))
        needed = {metric for metric in metrics if metric in BUSY or any(name.startswith(f"{metric}_") for name in kept)}
        if _RATIO_OF_UTILISATIONS in kept:
            needed.add("memory_utilization")
        return cls(tuple(sorted(needed)), tuple(kept), excluded | dropped)

    def matrix(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """One row per pair, shape (n, len(columns)); NaN where the profile lacks the metric."""
        rows: dict[tuple[int, str], list[float]] = {}
        for pair in pairs:
            key = (id(pair.source), pair.source_gpu.name)  # a profile paired with thirty GPUs is read once
            if key not in rows:
                values = _values(pair.source, pair.source_gpu, self.metrics)
                rows[key] = [values.get(column, np.nan) for column in self.columns]
        matrix = [rows[id(pair.source), pair.source_gpu.name] for pair in pairs]
        return np.array(matrix, dtype=np.float64).reshape(len(pairs), len(self.columns))


def static_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Logs of data-sheet figures source/target and the zero-training prior, shape (n, 6)."""
    ratios = [
        [float(np.log(getattr(pair.source_gpu, name) / getattr(pair.target_gpu, name))) for name in STATIC] for pair in pairs
    ]
    return np.column_stack([np.array(ratios, dtype=np.float64).reshape(len(pairs), len(STATIC)), prior_log_ratio(pairs)])


def columns_of(metrics: Sequence[str]) -> tuple[str, ...]:
    """Names of every column that these metrics give, before the exclusion rule."""
    columns: list[str] = []
    for metric in metrics:
        if metric in RATIOS:
            columns += [*(f"{metric}_{name}" for name in _DISTRIBUTION), f"{metric}_logit"]
        elif metric == "power":
            columns += [f"power_{name}_per_tdp" for name in _DISTRIBUTION]
        elif metric == "sm_clock":
            columns += [f"sm_clock_{name}_per_boost" for name in _CLOCK]
        else:  # traffic
            columns += [f"{metric}_mean_log", f"{metric}_max_log"]
    if {"gpu_utilization", "memory_utilization"} <= set(metrics):
        columns.append(_RATIO_OF_UTILISATIONS)
    return tuple(columns)


def _values(profile: Profile, gpu: Gpu, metrics: Sequence[str]) -> dict[str, float]:
    """Column -> value of the metrics that the profile holds."""
    values: dict[str, float] = {}
    for metric in metrics:
        held = statistics_of(profile, metric)
        if held is None:
            continue
        if metric in RATIOS:
            values |= {f"{metric}_{name}": held[name] for name in _DISTRIBUTION}
            values[f"{metric}_logit"] = _logit(held["mean"])
        elif metric == "power":
            values |= {f"power_{name}_per_tdp": held[name] / gpu.tdp for name in _DISTRIBUTION}
        elif metric == "sm_clock":
            values |= {f"sm_clock_{name}_per_boost": held[name] / gpu.boost_clock for name in _CLOCK}
        else:
            values |= {f"{metric}_{name}_log": float(np.log10(1 + held[name] / _MEGABYTE)) for name in ("mean", "max")}
    if "gpu_utilization_mean" in values and "memory_utilization_mean" in values:
        # One of nvidia-smi's whole percents, so that idle GPUs have a ratio.
        ratio = (values["memory_utilization_mean"] + 0.01) / (values["gpu_utilization_mean"] + 0.01)
        values[_RATIO_OF_UTILISATIONS] = float(np.log(ratio))
    return values


def _logit(share: float) -> float:
    clipped = float(np.clip(share, _HALF_PERCENT, 1 - _HALF_PERCENT))
    return float(np.log(clipped / (1 - clipped)))


# Quartiles and logs of the same quantity only add distance between rows that are alike, static attributes name the GPU.
SMOOTH: tuple[str, ...] = (
    *(f"gpu_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
    *(f"memory_utilization_{name}" for name in ("mean", "std", "p50", "max", "logit")),
    "memory_per_gpu_utilization_log",
    *(f"power_{name}_per_tdp" for name in ("mean", "std", "max")),
    "sm_clock_mean_per_boost",
)
"""Names of the smooth features, in the order of the columns of :func:`smooth_features`."""

_SMOOTH = SourceFeatures(("gpu_utilization", "memory_utilization", "power", "sm_clock"), SMOOTH, {})


def has_smooth_features(pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Whether each pair's profile holds the metrics that the smooth features need, shape (n,)."""
    return np.array([usable_metrics(pair.source) >= set(_SMOOTH.metrics) for pair in pairs], dtype=bool)


def smooth_features(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Of profiles that have them, shape (n, len(SMOOTH))."""
    return _SMOOTH.matrix(pairs)
