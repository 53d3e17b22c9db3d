"""Profiles that lack metrics, made from whole ones: what the errors of incomplete answers are measured on."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from .features import BUSY
from .pairs import Pair
from .profile import feature_set


def without_some_metrics(pairs: Sequence[Pair]) -> list[Pair]:
    """Take from each source profile a random choice of its metrics, at least one, and leave one activity metric; seed 0.

    A profile without any activity metric stays as it is.
    """
    rng = np.random.default_rng(0)
    poorer = []
    for pair in pairs:
        metrics = pair.source.metrics
        kept_busy = next((name for name in BUSY if name in metrics), None)
        others = [] if kept_busy is None else sorted(set(metrics) - {kept_busy})
        gone = set(rng.choice(others, size=rng.integers(1, len(others) + 1), replace=False)) if others else set()
        rest = {name: statistics for name, statistics in metrics.items() if name not in gone}
        poorer.append(replace(pair, source=replace(pair.source, metrics=rest, feature_set=feature_set(rest))))
    return poorer
