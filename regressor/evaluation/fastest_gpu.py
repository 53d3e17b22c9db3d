"""Whether following the predictions leads to the fastest GPU, and what it costs where it does not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pair
from .questions import questions


@dataclass(frozen=True)
class FastestGpu:
    """Over ``n`` questions, one for each profile of a workload: which of the GPUs it was measured on is the fastest?

    Attributes:
        right: share of questions whose predicted fastest GPU is the fastest.
        regret: percent of time that following the prediction takes above the fastest GPU, mean.
        n: questions asked.
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
    for question in questions(pairs):
        guess, truth = question.seconds(predicted), question.seconds(actual)
        if len(guess) > 2 and np.isfinite(guess).all():
            regrets.append(truth[int(np.argmin(guess))] / truth.min() - 1)
    if not regrets:
        return FastestGpu(math.nan, math.nan, 0)
    return FastestGpu(float(np.mean([regret == 0 for regret in regrets])), 100 * float(np.mean(regrets)), len(regrets))
