"""What the black-box paper's recipe and its single models share: the paper's features, and seconds as they are for a target."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.errors import InputError
from epochcast.regressor.features import exclude, paper_features
from epochcast.regressor.gpus import FIGURES
from epochcast.regressor.pairs import Pair, target_seconds

Features = Literal["all", "dynamic", "static"]

_LATENCY = "latency"
_STATIC = frozenset(f"{figure}_ratio" for figure in FIGURES)


@dataclass(eq=False, repr=False)
class RawSecondsRecipe(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fits one regressor on the paper's features (section III-C.1), less those that its exclusion rule drops (section III-A).

    Attributes:
        features: ``dynamic`` are the source's metrics, ``static`` the source/target ratios of the GPUs' attributes (Table V).
        latency: whether the source's epoch seconds, the paper's third kind of input, are included.
        columns_: the features that were used.
        excluded_: those that were not, with the reason (:func:`~epochcast.regressor.features.exclude`).
    """

    features: Features = "all"
    latency: bool = True

    @abstractmethod
    def _regressor(self) -> Any:
        """Return the unfitted scikit-learn regressor."""

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs.

        Raises:
            InputError: ``features`` is unknown, a profile has no epoch seconds, or the exclusion rule leaves nothing.
        """
        table = paper_features(pairs)
        chosen = table[_chosen([*table.columns], self.features, self.latency)]
        self.columns_, self.excluded_ = exclude(chosen)
        if not self.columns_:
            raise InputError(
                f"none of {len(self.excluded_)} features is present in all {len(pairs)} pairs and differs between them; give "
                "pairs of more workloads and GPUs"
            )
        self.regressor_ = self._regressor().fit(chosen[self.columns_].to_numpy(), target_seconds(pairs))
        return self

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        check_is_fitted(self)
        seconds: NDArray[np.float64] = self.regressor_.predict(paper_features(pairs)[self.columns_].to_numpy())
        return seconds


def _chosen(columns: list[str], features: str, latency: bool) -> list[str]:
    parts = {
        "all": [column for column in columns if column != _LATENCY],
        "dynamic": [column for column in columns if column != _LATENCY and column not in _STATIC],
        "static": [column for column in columns if column in _STATIC],
    }
    if features not in parts:
        raise InputError(f"unknown features {features!r}; known are {', '.join(parts)}")
    return [*parts[features], *([_LATENCY] if latency else [])]
