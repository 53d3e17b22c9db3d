"""Features of a pair: the paper's own, and which of them it excludes; how busy a GPU was."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from epochcast.regressor.errors import InputError
from epochcast.regressor.gpus import FIGURES
from epochcast.regressor.pairs import Pair
from epochcast.regressor.profile import METRICS, STATISTICS, Profile

# Activity ratios that say how busy the GPU was, the one that the prior was checked with first. The first two are the share of
# time with any kernel running; sm_active is averaged over SMs and therefore lower.
BUSY = ("gpu_utilization", "gr_engine_active", "sm_active")


# A job that hardly uses the GPU says nothing of its speed. By choice.
_LEAST_BUSY = 0.02


def paper_features(pairs: Sequence[Pair]) -> pd.DataFrame:
    """Section III-C.1: statistics of the source's metrics, static attributes as source/target, source latency.

    Returns:
        One row per pair; columns ``<metric>_<statistic>`` in base units, ``<attribute>_ratio``, ``latency`` in seconds. NaN
        where a profile has no such metric, or an attribute is unknown or 0 on the target.
    """
    return pd.DataFrame([_paper_row(pair) for pair in pairs], columns=PAPER_COLUMNS, dtype=np.float64)


PAPER_COLUMNS = [
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
        raise InputError("the paper's features need the seconds of an epoch, but the profile has none; use pipeline 'default'")
    row["latency"] = pair.source.epoch_s
    return row


UNAVAILABLE, CONSTANT = "unavailable", "constant"
"""Why :func:`exclude` drops a feature; the third reason names the one that it repeats."""


def exclude(frame: pd.DataFrame) -> tuple[list[str], dict[str, str]]:
    """Drop the features that the paper drops (section III-A): "not collected from specific GPUs", without variation, identical.

    Args:
        frame: numeric features, one row per pair; NaN where a row has no such feature.

    Returns:
        The columns that stay, and for each that goes the reason: ``unavailable`` (NaN in some row), ``constant`` (one value in
        all rows), or ``identical to NAME`` (equal in all rows to a column that stays, the first of its kind).
    """
    values = frame.to_numpy(dtype=np.float64)
    missing = np.isnan(values).any(axis=0)
    constant = (values == values[:1]).all(axis=0)
    kept: dict[bytes, str] = {}
    dropped: dict[str, str] = {}
    for position, name in enumerate(frame.columns):
        if missing[position]:
            dropped[name] = UNAVAILABLE
        elif constant[position]:
            dropped[name] = CONSTANT
        else:
            # Adding 0 makes -0.0 and 0.0 the same bytes.
            first = kept.setdefault((values[:, position] + 0.0).tobytes(), name)
            if first != name:
                dropped[name] = f"identical to {first}"
    return list(kept.values()), dropped


def busy_share(profile: Profile) -> tuple[float, str | None]:
    """Return the share of time that the GPU was busy, and the metric that shows it.

    Without any activity metric the share is 1: the job is then taken for GPU-bound, and the ratio for that of the GPUs.
    """
    for metric in BUSY:
        if metric in profile.metrics:
            return min(profile.metrics[metric]["mean"], 1.0), metric
    return 1.0, None


def busy_at_least(profile: Profile) -> float:
    """The share that the GPU was busy, enough of it to say something of its speed."""
    return max(busy_share(profile)[0], _LEAST_BUSY)
