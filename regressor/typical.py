"""The typical job on a GPU: means over the training data, what an explanation is held against."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from epochcast.regressor.gpus import Catalog, Gpu
from epochcast.regressor.profile import STATISTICS, Profile

Statistics = Mapping[str, float]
"""Statistic (:data:`~epochcast.regressor.profile.STATISTICS`) -> value in base units."""

# The mean of one profile would be a training row in the model file.
_FEWEST = 2

# What a metric is worth on another GPU grows with this figure; shares of time or of rates do not.
_GROWS_WITH = {
    "power": "tdp",
    "power_average": "tdp",
    "sm_clock": "boost_clock",
    "memory_used": "memory",
    "memory_free": "memory",
}


def typical_by_gpu(profiles: Sequence[Profile], catalog: Catalog) -> dict[str, dict[str, dict[str, float]]]:
    """Mean of every statistic over the profiles, as GPU -> metric -> statistic; means of valid statistics are valid.

    Raises:
        InputError: a profile's GPU is unknown or ambiguous.
    """
    seen: dict[str, dict[str, list[Statistics]]] = defaultdict(lambda: defaultdict(list))
    for profile in profiles:
        for metric, statistics in profile.metrics.items():
            seen[catalog.resolve(profile.gpu).name][metric].append(statistics)
    return {
        gpu: {metric: _mean(every) for metric, every in sorted(metrics.items()) if len(every) >= _FEWEST}
        for gpu, metrics in sorted(seen.items())
    }


def typical_metrics(by_gpu: Mapping[str, Mapping[str, Statistics]], gpu: Gpu, catalog: Catalog) -> dict[str, Statistics]:
    """Typical statistics on one GPU, as metric -> statistics.

    A metric never trained on there is the mean over the other GPUs, scaled by the data sheets where it grows with a figure.
    """
    own = dict(by_gpu.get(gpu.name, {}))
    others: dict[str, list[Statistics]] = defaultdict(list)
    for name, metrics in by_gpu.items():
        if name in catalog:
            for metric in metrics.keys() - own.keys():
                others[metric].append(_scaled(metrics[metric], metric, catalog[name], gpu))
    return own | {metric: _mean(every) for metric, every in others.items()}


def _scaled(statistics: Statistics, metric: str, source: Gpu, target: Gpu) -> Statistics:
    figure = _GROWS_WITH.get(metric)
    factor = getattr(target, figure) / getattr(source, figure) if figure else 1.0
    return {name: value * factor for name, value in statistics.items()}


def _mean(every: Sequence[Statistics]) -> dict[str, float]:
    return {name: float(np.mean([statistics[name] for statistics in every])) for name in STATISTICS}
