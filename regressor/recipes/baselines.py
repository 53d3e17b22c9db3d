"""What any recipe must beat: one rule each, no telemetry."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ..pairs import Pair, actual_ratio, source_seconds


class SpecificationRatio(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Source latency times the source/target ratio of one data-sheet figure; ``None`` keeps the latency as it is.

    FLOP/s are the data sheet's (2 · CUDA cores · boost clock), dual issue included.
    """

    def __init__(self, figure: Literal["flops", "memory_bandwidth"] | None = None) -> None:
        self.figure = figure

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn nothing."""
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        return source_seconds(pairs) * np.array([self._ratio(pair) for pair in pairs], dtype=np.float64)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _ratio(self, pair: Pair) -> float:
        source, target = pair.source_gpu, pair.target_gpu
        if self.figure == "flops":
            return source.cuda_cores * source.boost_clock / (target.cuda_cores * target.boost_clock)
        if self.figure == "memory_bandwidth":
            return source.memory_bandwidth / target.memory_bandwidth
        return 1.0


class PairMedian(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Source latency times the median target/source ratio of the training pairs between the same two GPUs.

    A pair of GPUs that training has not seen gets NaN: no answer.
    """

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Take the median per (source GPU, target GPU)."""
        ratios = defaultdict(list)
        for pair, ratio in zip(pairs, actual_ratio(pairs), strict=True):
            ratios[pair.source_gpu.name, pair.target_gpu.name].append(ratio)
        self.medians_ = {names: float(np.median(values)) for names, values in ratios.items()}
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,), NaN for pairs never seen."""
        check_is_fitted(self)
        medians = [self.medians_.get((pair.source_gpu.name, pair.target_gpu.name), np.nan) for pair in pairs]
        return source_seconds(pairs) * np.array(medians, dtype=np.float64)
