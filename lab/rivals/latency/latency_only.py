"""From the latencies of one GPU to another's, where no telemetry was recorded (PROFET's data: epoch and step seconds)."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.pairs import Pair, actual_ratio, source_seconds

# Powers of ten by quarters, eight decades; by choice.
_ALPHAS = np.logspace(-4, 4, 33)


class LatencyOnlyRecipe(RegressorMixin, BaseEstimator):
    """A polynomial of log step seconds and log steps per epoch on the log ratio, one per (source GPU, target GPU).

    Ridge strength by leave-one-out error within the training pairs (:class:`~sklearn.linear_model.RidgeCV`). Answers are
    clipped to the range of the training targets, as a polynomial bends away outside; a pair of GPUs never seen gets NaN.
    Without ``step_s`` in a profile the training medians are used.

    Args:
        degree: of the polynomial; a cubic bends twice: where the step is overhead, and where the GPU is full. By choice.
    """

    def __init__(self, degree: int = 3) -> None:
        self.degree = degree

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit one ridge per pair of GPUs.

        Raises:
            InputError: a pair is not measured.
        """
        X, log_ratio = _latencies(pairs), np.log(actual_ratio(pairs))
        self.models_, self.ranges_ = {}, {}
        for names, rows in _by_gpus(pairs).items():
            model = make_pipeline(
                SimpleImputer(strategy="median", keep_empty_features=True),
                StandardScaler(),
                PolynomialFeatures(self.degree, include_bias=False),
                StandardScaler(),
                RidgeCV(_ALPHAS),
            )
            self.models_[names] = model.fit(X[rows], log_ratio[rows])
            self.ranges_[names] = (log_ratio[rows].min(), log_ratio[rows].max())
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,), NaN for pairs of GPUs never seen."""
        check_is_fitted(self)
        X, log_ratio = _latencies(pairs), np.full(len(pairs), np.nan)
        for names, rows in _by_gpus(pairs).items():
            if names in self.models_:
                log_ratio[rows] = np.clip(self.models_[names].predict(X[rows]), *self.ranges_[names])
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(log_ratio)
        return seconds


def _latencies(pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Log step seconds and log of epoch/step seconds, shape (n, 2); NaN without a step."""
    step = np.log([np.nan if pair.source.step_s is None else pair.source.step_s for pair in pairs])
    return np.column_stack([step, np.log(source_seconds(pairs)) - step])


def _by_gpus(pairs: Sequence[Pair]) -> dict[tuple[str, str], list[int]]:
    rows = defaultdict(list)
    for row, pair in enumerate(pairs):
        rows[pair.gpus].append(row)
    return rows
