"""The zero-training prior: utilisation and data sheets, no training data."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags

from epochcast.regressor.features import busy_share
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.pairs import Pair, source_seconds
from epochcast.regressor.profile import Profile

# Below is an idle state, above a clock that no board sustains: a wrong reading or a wrong figure in the catalogue. By choice.
_CLOCK_SHARES = (0.25, 1.25)


class PriorRecipe(RegressorMixin, BaseEstimator):
    """T_t = T_s · [(1 − u) + u · R] as in :func:`prior_log_ratio`; answers for any two GPUs."""

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn nothing."""
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        return source_seconds(pairs) * np.exp(prior_log_ratio(pairs))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def clock_share(profile: Profile, gpu: Gpu) -> float:
    """Return the SM clock that the job ran at over the boost clock, 1 where it was not read.

    A board short of power never reaches its boost clock: a T4 at work runs at two thirds of it. The upper quartile, as an idle
    GPU rests at a few hundred MHz between the kernels that matter here.
    """
    if "sm_clock" not in profile.metrics:
        return 1.0
    low, high = _CLOCK_SHARES
    return min(max(profile.metrics["sm_clock"]["p75"] / gpu.boost_clock, low), high)


def prior_log_ratio(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Log of target/source seconds without any training data, shape (n,).

    T_t = T_s · [(1 − u) + u · R]: the idle share of an epoch stays, the busy share u scales with the GPUs. R is the ratio of
    arithmetic rates F_s/F_t, and once more sqrt(F_s·B_s / F_t·B_t) with memory bandwidth B; the logs of both are averaged.
    F gives no credit for dual issue (:attr:`~epochcast.regressor.gpus.Gpu.effective_flops`); F_s is that of the clock that the
    job ran at (:func:`clock_share`).
    """
    u = np.array([busy_share(pair.source)[0] for pair in pairs], dtype=np.float64)
    rates = [clock_share(pair.source, pair.source_gpu) * pair.source_gpu.effective_flops for pair in pairs]
    flops = np.array(rates, dtype=np.float64) / [pair.target_gpu.effective_flops for pair in pairs]
    bandwidth = np.array(
        [pair.source_gpu.memory_bandwidth / pair.target_gpu.memory_bandwidth for pair in pairs], dtype=np.float64
    )
    compute_bound = np.log((1 - u) + u * flops)
    balanced = np.log((1 - u) + u * np.sqrt(flops * bandwidth))
    mean: NDArray[np.float64] = (compute_bound + balanced) / 2
    return mean
