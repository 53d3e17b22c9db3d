"""Which GPU for a workload seen on one? Whether following the predictions leads to the fastest, and what it costs if not."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.pairs import Pair
from epochcast.regressor.profile import Profile


@dataclass(frozen=True)
class MeasuredProfile:
    """One profile and the GPUs that its workload was measured on.

    Attributes:
        source: the profile; its own latency is known.
        gpus: candidates, shape (k,); the source's own comes first.
        rows: of every other candidate, the rows of its pairs; a GPU that was measured twice is one candidate.
    """

    source: Profile
    gpus: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def seconds(self, on_targets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Seconds on each candidate, shape (k,), from those of all pairs, shape (n,); NaN where a pair of it has none."""
        return np.array([self.source.epoch_s, *(np.median(on_targets[list(rows)]) for rows in self.rows)], dtype=np.float64)


def measured_profiles(pairs: Sequence[Pair]) -> list[MeasuredProfile]:
    """One entry for each source profile; pairs of one profile hold the same object."""
    by_source: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for row, pair in enumerate(pairs):
        by_source[id(pair.source)][pair.target_gpu.name].append(row)
    profiles = []
    for rows in by_source.values():
        first = pairs[next(iter(rows.values()))[0]]
        profiles.append(MeasuredProfile(first.source, (first.source_gpu.name, *rows), tuple(tuple(of) for of in rows.values())))
    return profiles


@dataclass(frozen=True)
class FastestGpu:
    """Over ``n`` questions, one for each profile of a workload: which of the GPUs it was measured on is the fastest?

    Attributes:
        right: share of questions whose predicted fastest GPU is the fastest.
        regret: percent of time that following the prediction takes above the fastest GPU, mean.
        n: number of questions.
    """

    right: float
    regret: float
    n: int


def fastest_gpu(pairs: Sequence[Pair], actual: NDArray[np.float64], predicted: NDArray[np.float64]) -> FastestGpu:
    """Ask for the fastest GPU from each source profile whose workload was measured on three GPUs or more.

    Candidates are the targets of the profile's pairs and its own GPU, the latency of which is known. A profile with an
    unanswered pair asks nothing. Of two with equal predictions the source is followed: moving takes a reason.

    Args:
        pairs: measured pairs; those of one source profile hold the same object.
        actual: seconds, shape (n,).
        predicted: seconds, shape (n,), NaN where there is no answer.
    """
    regrets = []
    for measured in measured_profiles(pairs):
        guess, truth = measured.seconds(predicted), measured.seconds(actual)
        if len(guess) > 2 and np.isfinite(guess).all():
            regrets.append(truth[int(np.argmin(guess))] / truth.min() - 1)
    if not regrets:
        return FastestGpu(math.nan, math.nan, 0)
    return FastestGpu(float(np.mean([regret == 0 for regret in regrets])), 100 * float(np.mean(regrets)), len(regrets))
