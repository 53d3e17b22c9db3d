"""What any recipe must beat: one rule each, no telemetry."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.pairs import Pair, actual_ratio, source_seconds
from epochcast.regressor.ridge import log_figures

Figure = Literal["flops", "memory_bandwidth"]


class SpecificationRatio(RegressorMixin, BaseEstimator):
    """Source latency times the source/target ratio of a data-sheet figure, or the geometric mean of those of two figures.

    Without a figure the latency stays as it is. FLOP/s are the data sheet's (2 · CUDA cores · boost clock), with dual issue.
    """

    def __init__(self, figure: Figure | None = None, other: Figure | None = None) -> None:
        self.figure = figure
        self.other = other

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn nothing."""
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        figures = [figure for figure in (self.figure, self.other) if figure is not None]
        ratios = np.array([[_ratio(pair, figure) for figure in figures] for pair in pairs]).reshape(len(pairs), len(figures))
        return source_seconds(pairs) * np.exp(np.log(ratios).mean(axis=1) if figures else np.zeros(len(pairs)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags


def _ratio(pair: Pair, figure: Figure) -> float:
    source, target = pair.source_gpu, pair.target_gpu
    if figure == "flops":
        return source.cuda_cores * source.boost_clock / (target.cuda_cores * target.boost_clock)
    return source.memory_bandwidth / target.memory_bandwidth


class DataSheetRidge(RegressorMixin, BaseEstimator):
    """Source latency times what a ridge on log ratios of data-sheet figures says, with slopes of their own in mixed precision.

    The figures are those of :mod:`~epochcast.regressor.ridge`; a job of unknown precision counts as FP32 code.
    """

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Learn the slopes."""
        self.model_ = Ridge(1.0, fit_intercept=False).fit(_figure_ratios(pairs), np.log(actual_ratio(pairs)))
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        check_is_fitted(self)
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.model_.predict(_figure_ratios(pairs)))
        return seconds


def _figure_ratios(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Log source/target ratios, then the same with the other sign outside mixed precision, shape (n, 2 · figures)."""
    precisions = [pair.source.precision or "tf32" for pair in pairs]
    ratios = np.array(
        [
            np.subtract(log_figures(pair.source_gpu, precision), log_figures(pair.target_gpu, precision))
            for pair, precision in zip(pairs, precisions, strict=True)
        ]
    )
    sign = np.array([1.0 if precision in ("mixed", "fp8") else -1.0 for precision in precisions])
    return np.hstack([ratios, sign[:, None] * ratios])


class PairMedian(RegressorMixin, BaseEstimator):
    """Source latency times the median target/source ratio of the training pairs between the same two GPUs.

    A pair of GPUs that training has not seen gets NaN: no answer.
    """

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Take the median per (source GPU, target GPU)."""
        ratios = defaultdict(list)
        for pair, ratio in zip(pairs, actual_ratio(pairs), strict=True):
            ratios[pair.gpus].append(ratio)
        self.medians_ = {names: float(np.median(values)) for names, values in ratios.items()}
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,), NaN for pairs never seen."""
        check_is_fitted(self)
        medians = [self.medians_.get(pair.gpus, np.nan) for pair in pairs]
        return source_seconds(pairs) * np.array(medians, dtype=np.float64)
