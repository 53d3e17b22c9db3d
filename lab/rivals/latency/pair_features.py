"""Pairs to a matrix as a scikit-learn step, so that a recipe of one's own is a pipeline."""

from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.derived import STATIC, SourceFeatures, static_features
from epochcast.regressor.errors import InputError
from epochcast.regressor.features import exclude, paper_features
from epochcast.regressor.pairs import Pair

_STATIC_COLUMNS = (*(f"{name}_log_ratio" for name in STATIC), "prior_log_ratio")


class PairFeatures(TransformerMixin, BaseEstimator):
    """Turns pairs into one row of features each; what never varies in training is left out.

    Args:
        kind: ``derived`` features carry over between GPUs, know no latency, and go with the log ratio as target
            (:mod:`~epochcast.regressor.derived`); ``paper`` has those of section III-C.1 and goes with seconds.

    Attributes:
        columns_: names of the columns.
        excluded_: metric or column that is not used -> reason.
    """

    def __init__(self, kind: Literal["derived", "paper"] = "derived") -> None:
        self.kind = kind

    def fit(self, pairs: Sequence[Pair], y: object = None) -> Self:
        """Choose the columns; ``y`` is not looked at.

        Raises:
            InputError: ``kind`` is unknown, there is no pair, or the paper's features miss a profile's epoch seconds.
        """
        if not len(pairs):
            raise InputError("there are no pairs to take features from; give at least one")
        if self.kind == "derived":
            self.source_ = SourceFeatures.choose(pairs)
            self.columns_, self.excluded_ = [*self.source_.columns, *_STATIC_COLUMNS], dict(self.source_.excluded)
        elif self.kind == "paper":
            self.columns_, self.excluded_ = exclude(paper_features(pairs))
        else:
            raise InputError(f"unknown kind of features {self.kind!r}; known are derived, paper")
        return self

    def transform(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return the features, shape (n, len(columns_)); NaN where a profile lacks a metric that the training profiles held."""
        check_is_fitted(self)
        if self.kind == "derived":
            return np.column_stack([self.source_.matrix(pairs), static_features(pairs)])
        paper: NDArray[np.float64] = paper_features(pairs)[self.columns_].to_numpy()
        return paper

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns; scikit-learn's argument has no meaning for pairs."""
        check_is_fitted(self)
        return np.array(self.columns_, dtype=object)
