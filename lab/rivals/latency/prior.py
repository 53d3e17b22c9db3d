"""The zero-training prior: utilisation and data sheets, no training data."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags

from epochcast.regressor.features import prior_log_ratio
from epochcast.regressor.pairs import Pair, source_seconds


class PriorRecipe(RegressorMixin, BaseEstimator):
    """T_t = T_s · [(1 − u) + u · R] as in :func:`~epochcast.regressor.features.prior_log_ratio`; answers for any two GPUs."""

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
