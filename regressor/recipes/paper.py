"""The black-box paper's recipe, section III-C, as written: the figure to beat, and what ``--pipeline paper`` answers with."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from catboost import CatBoostRegressor
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor, StackingRegressor
from sklearn.model_selection import KFold
from sklearn.utils.validation import check_is_fitted

from epochcast.regressor.boosting import array_of, model_of
from epochcast.regressor.errors import InputError
from epochcast.regressor.features import exclude, paper_features
from epochcast.regressor.pairs import Pair, target_seconds
from epochcast.regressor.trees import Trees


@dataclass(eq=False, repr=False)
class RawSecondsRecipe(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fits one regressor on the paper's features (section III-C.1), less those that its exclusion rule drops (section III-A).

    Attributes:
        columns_: the features that were used.
        excluded_: those that were not, with the reason (:func:`~epochcast.regressor.features.exclude`).
    """

    @abstractmethod
    def _regressor(self) -> Any:
        """Return the unfitted scikit-learn regressor."""

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs.

        Raises:
            InputError: a profile has no epoch seconds, or the exclusion rule leaves nothing.
        """
        table = self._table(pairs)
        self.columns_, self.excluded_ = exclude(table)
        if not self.columns_:
            raise InputError(
                f"none of {len(self.excluded_)} features is present in all {len(pairs)} pairs and differs between them; give "
                "pairs of more workloads and GPUs"
            )
        self.regressor_ = self._regressor().fit(table[self.columns_].to_numpy(), target_seconds(pairs))
        return self

    def _table(self, pairs: Sequence[Pair]) -> pd.DataFrame:
        """The features to choose from."""
        return paper_features(pairs)

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        check_is_fitted(self)
        seconds: NDArray[np.float64] = self.regressor_.predict(self._table(pairs)[self.columns_].to_numpy())
        return seconds


class Stack(NamedTuple):
    """A fitted stack that can be stored: scikit-learn's trees as arrays, in float64 to answer as it does.

    ``meta`` answers from the two columns that ``forest`` and ``booster`` answer, in seconds.
    """

    forest: Trees
    booster: CatBoostRegressor
    meta: Trees

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return seconds, shape (n, features) -> (n,), those of the StackingRegressor."""
        forest = self.forest.predict(X.astype(np.float32))  # as scikit-learn reads rows
        return self.meta.predict(np.column_stack([forest, self.booster.predict(X, thread_count=1)]))


def members(trees: int, iterations: int, random_state: int) -> list[tuple[str, Any]]:
    """The two models that the paper stacks, unfitted, under their names in a scikit-learn ensemble.

    They have the libraries' defaults; CatBoost one thread, and no files next to the answer.
    """
    once = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
    forest = RandomForestRegressor(trees, random_state=random_state)
    return [("forest", forest), ("catboost", CatBoostRegressor(iterations=iterations, random_seed=random_state, **once))]


@dataclass(eq=False, repr=False)
class PaperRecipe(RawSecondsRecipe):
    """Random forest and CatBoost, stacked under HistGradientBoosting; raw features in, seconds out (section III-C.2).

    The paper names no hyper-parameter, so each library's defaults hold; the arguments exist to make a fast check possible.
    The stack's inner folds are shuffled, as a random split before it would have done: in the order of the pairs they leave
    whole models out, and the meta-regressor learns from worse predictions than it is given later (P2 15.0 instead of 11.6 %).

    Attributes:
        regressor_: the stack's parts.
        seconds_: the shortest and the longest epoch of the training; trees answer nothing beyond.
    """

    trees: int = 100
    iterations: int = 1000
    cv: int = 5
    random_state: int = 0

    def _regressor(self) -> Any:
        meta = HistGradientBoostingRegressor(random_state=self.random_state)
        folds = KFold(self.cv, shuffle=True, random_state=self.random_state)
        # The inner fits are independent; in parallel they give the same numbers in a fraction of the minutes.
        models = members(self.trees, self.iterations, self.random_state)
        return StackingRegressor(models, meta, cv=folds, n_jobs=-1)

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs."""
        fitted = super().fit(pairs).regressor_
        forest, booster = fitted.estimators_
        meta = Trees.of_boosting(fitted.final_estimator_, np.float64)
        self.regressor_ = Stack(Trees.of_forest(forest, np.float64), booster, meta)
        self.seconds_ = float(target_seconds(pairs).min()), float(target_seconds(pairs).max())
        return self

    def state(self) -> dict[str, Any]:
        """Return what was learnt; :meth:`get_params` is the caller's to keep next to it."""
        stack = self.regressor_
        trees = {"forest": stack.forest.arrays(), "meta": stack.meta.arrays(), "booster": array_of(stack.booster)}
        return {"columns": self.columns_, "seconds": self.seconds_} | trees

    def restore(self, state: Mapping[str, Any]) -> Self:
        """Take :meth:`state`."""
        self.columns_, self.seconds_ = state["columns"], tuple(state["seconds"])
        self.regressor_ = Stack(Trees(**state["forest"]), model_of(state["booster"]), Trees(**state["meta"]))
        return self
