"""The black-box paper's recipe, section III-C, as written: the figure to beat, and what ``--recipe paper`` answers with."""

from collections.abc import Sequence
from typing import Any, Self

from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, StackingRegressor
from sklearn.model_selection import KFold

from ..arrays import Arrays
from ..pairs import Pair
from ..stack import Stack
from .raw_seconds import Features, RawSecondsRecipe
from .single_models import members


class PaperRecipe(RawSecondsRecipe):
    """Random forest and CatBoost, stacked under HistGradientBoosting; raw features in, seconds out (section III-C.2).

    The paper names no hyper-parameter, so each library's defaults hold; the arguments exist to make a fast check possible.
    The stack's inner folds are shuffled, as a random split before it would have done: in the order of the pairs they leave
    whole models out, and the meta-regressor learns from worse predictions than it is given later (P2 15.0 instead of 11.6 %).
    """

    def __init__(
        self,
        features: Features = "all",
        latency: bool = True,
        trees: int = 100,
        iterations: int = 1000,
        cv: int = 5,
        random_state: int = 0,
    ) -> None:
        self.features = features
        self.latency = latency
        self.trees = trees
        self.iterations = iterations
        self.cv = cv
        self.random_state = random_state

    def _regressor(self) -> Any:
        meta = HistGradientBoostingRegressor(random_state=self.random_state)
        folds = KFold(self.cv, shuffle=True, random_state=self.random_state)
        # The inner fits are independent; in parallel they give the same numbers in a fraction of the minutes.
        models = members(self.trees, self.iterations, self.random_state)
        return StackingRegressor(models, meta, cv=folds, n_jobs=-1)

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on measured pairs; ``regressor_`` is the stack's parts, which can be saved and answer the same."""
        self.regressor_ = Stack.of(super().fit(pairs).regressor_)
        return self

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted stack; :meth:`get_params` and ``columns_`` are the caller's to keep beside it."""
        stack: Stack = self.regressor_
        return stack.arrays()

    def restore(self, columns: Sequence[str], arrays: Arrays) -> Self:
        """Take :meth:`arrays` of a stack that was fitted on these features.

        Raises:
            InputError: an array is missing or not what it should be.
        """
        self.columns_ = list(columns)
        self.regressor_ = Stack.of_arrays(arrays, len(columns))
        return self
