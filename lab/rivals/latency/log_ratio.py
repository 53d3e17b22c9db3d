"""A scikit-learn regressor on pairs as a recipe: the log of target/source is what it learns."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.pairs import Pair, actual_ratio, source_seconds


class LogRatioRecipe(RegressorMixin, BaseEstimator):
    """Fits a copy of any regressor on the log ratio.

    Args:
        regressor: takes pairs, shape (n,), e.g. a pipeline that begins with
            :class:`~lab.rivals.latency.pair_features.PairFeatures`; it stays unfitted, as scikit-learn's meta-estimators do.
    """

    def __init__(self, regressor: Any) -> None:
        self.regressor = regressor

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs.

        Raises:
            InputError: a pair is not measured.
        """
        self.regressor_ = clone(self.regressor).fit(pairs, np.log(actual_ratio(pairs)))
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        check_is_fitted(self)
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.regressor_.predict(pairs))
        return seconds
