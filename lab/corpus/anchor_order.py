"""Anchors: the workloads to measure on a new GPU, chosen before anything has run on it."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.errors import InputError
from epochcast.regressor.features import busy_share
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.pairs import Pair, gpu_names
from epochcast.regressor.profile import Profile
from epochcast.regressor.telemetry import has_telemetry, statistics_of

# Of workloads that represent the library about equally well, the shortest epoch is taken: measuring costs time. On the public
# data 5 % saves a seventh of that time and no accuracy; 20 % costs half a point at 5 anchors (decision 0015).
_ABOUT_EQUAL = 0.95


class Anchor(TypedDict):
    """A workload to measure, and what its library profile shows of how long that will take.

    ``gpu`` is the library's GPU with the shortest epoch of it, ``epoch_s`` its seconds per epoch there and ``busy_share`` the
    share of time that this GPU was busy. ``covered`` is the share of the library's spread (the mean distance between two of
    its workloads) that the anchors up to this one take away.
    """

    workload: str
    group: str | None
    gpu: str
    epoch_s: float
    busy_share: float
    covered: float


def anchor_order(pairs: Sequence[Pair], count: int = 40) -> list[Anchor]:
    """Order the workloads of a library so that the first k of them represent all of it well, for every k up to ``count``.

    40 is by choice (decision 0015).

    Greedy k-medoids (the BUILD step of PAM, Kaufman & Rousseeuw 1990) over the workloads' smooth features
    (:func:`~epochcast.regressor.telemetry.statistics_of`), which are centred and scaled per source GPU and averaged over the
    GPUs that a workload was seen on. Only source profiles are read: seconds on a new GPU play no part.

    Raises:
        InputError: no profile holds the metrics that the features need.
    """
    profiles = _profiles_by_workload(pairs)
    if not profiles:
        raise InputError(
            f"none of the {len(pairs)} pairs holds gpu_utilization, memory_utilization, power and sm_clock; anchors are "
            "chosen by these metrics: record them"
        )
    shortest = {workload: _shortest(seen) for workload, seen in profiles.items()}
    seconds = np.array([profile.epoch_s for profile, _ in shortest.values()], dtype=np.float64)
    order, covered = _greedy_medoids(_coordinates(profiles), seconds, count)
    named = list(shortest.items())
    return [
        Anchor(
            workload=named[row][0],
            group=named[row][1][0].group,
            gpu=named[row][1][1].name,
            epoch_s=float(f"{seconds[row]:.2g}"),  # enough to plan by, and no training row in the model file
            busy_share=busy_share(named[row][1][0])[0],
            covered=share,
        )
        for row, share in zip(order, covered, strict=True)
    ]


def _profiles_by_workload(pairs: Sequence[Pair]) -> dict[str, list[Pair]]:
    """One pair per workload and source GPU, those whose profile holds the features."""
    seen: dict[str, dict[str, Pair]] = defaultdict(dict)
    for pair in pairs:
        if has_telemetry(pair.source) and pair.source.workload is not None:
            seen[pair.source.workload].setdefault(pair.source_gpu.name, pair)
    return {workload: list(seen[workload].values()) for workload in sorted(seen)}


def _shortest(seen: Sequence[Pair]) -> tuple[Profile, Gpu]:
    """The profile with the shortest epoch, and its GPU."""
    pair = min(seen, key=lambda pair: pair.source.epoch_s or np.inf)
    return pair.source, pair.source_gpu


def _coordinates(profiles: Mapping[str, Sequence[Pair]]) -> NDArray[np.float64]:
    """Place of each workload among the others, shape (workloads, features)."""
    seen = [pair for pairs in profiles.values() for pair in pairs]
    X = statistics_of(seen)
    gpus, _ = gpu_names(seen)
    for gpu in np.unique(gpus):
        here = X[gpus == gpu]
        spread = here.std(axis=0)
        X[gpus == gpu] = (here - here.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    ends = np.cumsum([len(pairs) for pairs in profiles.values()])[:-1]
    return np.array([part.mean(axis=0) for part in np.split(X, ends)])


def _greedy_medoids(X: NDArray[np.float64], cost: NDArray[np.float64], count: int) -> tuple[list[int], list[float]]:
    """Rows of X in the order in which each lowers the summed distance to the nearest chosen row most, or about most.

    Returns:
        The rows, and for each the share of the mean distance that is gone by then; at most ``count``.
    """
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).mean(axis=-1))
    nearest = np.full(len(X), distance.max())
    chosen: list[int] = []
    covered: list[float] = []
    for _ in range(min(count, len(X))):
        gain = np.maximum(nearest[:, None] - distance, 0.0).sum(axis=0)
        gain[chosen] = -1.0
        about_best = np.flatnonzero(gain >= _ABOUT_EQUAL * gain.max())
        row = int(about_best[cost[about_best].argmin()])
        chosen.append(row)
        nearest = np.minimum(nearest, distance[:, row])
        spread = float(distance.mean())
        covered.append(1 - float(nearest.mean()) / spread if spread > 0 else 1.0)
    return chosen, covered
