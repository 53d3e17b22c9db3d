"""Pairs to a matrix as a scikit-learn step, so that a recipe of one's own is a pipeline."""

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.errors import InputError
from epochcast.regressor.features import exclude, paper_features
from epochcast.regressor.pairs import Pair
from epochcast.regressor.telemetry import METRICS, has_telemetry, sheet_change, statistics_of
from lab.rivals.latency.prior import prior_log_ratio


class PairFeatures(TransformerMixin, BaseEstimator):
    """Turns pairs into one row of features each.

    Args:
        kind: ``derived`` features carry over between GPUs, know no latency, and go with the log ratio as target
            (:mod:`~epochcast.regressor.telemetry`); ``paper`` has those of section III-C.1 and goes with seconds, less what its
            rule excludes.

    Attributes:
        columns_: names of the columns of ``paper``.
    """

    def __init__(self, kind: Literal["derived", "paper"] = "derived") -> None:
        self.kind = kind

    def fit(self, pairs: Sequence[Pair], y: object = None) -> Self:
        """Choose the columns; ``y`` is not looked at.

        Raises:
            InputError: ``kind`` is unknown, there is no pair, or a profile lacks what the features need.
        """
        if not len(pairs):
            raise InputError("there are no pairs to take features from; give at least one")
        if self.kind not in ("derived", "paper"):
            raise InputError(f"unknown kind of features {self.kind!r}; known are derived, paper")
        if self.kind == "derived" and not all(has_telemetry(pair.source) for pair in pairs):
            raise InputError(f"a profile lacks one of {', '.join(METRICS)}, which derived features need; use kind 'paper'")
        self.columns_ = exclude(paper_features(pairs))[0] if self.kind == "paper" else []
        return self

    def transform(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the features, one row per pair."""
        check_is_fitted(self)
        if self.kind == "derived":
            return np.column_stack([statistics_of(pairs), sheet_change(pairs), prior_log_ratio(pairs)])
        paper: NDArray[np.float64] = paper_features(pairs)[self.columns_].to_numpy()
        return paper
