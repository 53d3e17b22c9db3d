"""Fitted trees as plain arrays: kept without pickle, evaluated with NumPy, with the answers of the library that fitted them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

_LEAF = -1


@dataclass(frozen=True)
class Trees:
    """Regression trees in one set of arrays, nodes in depth-first order, so that a left child follows its parent.

    Attributes:
        roots: index of each tree's root, int32, shape (trees,).
        feature: column that a node splits on, −1 at a leaf, int16, shape (nodes,).
        skip: how many nodes further the right child is, 0 at a leaf, int32, shape (nodes,).
        value: the target at a leaf; at a split its threshold, a row goes left if its value is at most this; float32 or float64,
            shape (nodes,). One array, as no node has both: with ``skip`` in the place of an index it halves the file.
        start: what boosted trees add up to, shape (1,); ``None``: a forest, whose answer is the mean of its trees.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    skip: NDArray[np.int32]
    value: NDArray[np.floating[Any]]
    start: NDArray[np.float64] | None = None

    @classmethod
    def of_forest(cls, model: Any, dtype: type[np.floating[Any]] = np.float32) -> Self:
        """Copy the trees of a fitted ExtraTreesRegressor or RandomForestRegressor of one output.

        scikit-learn compares float32 values with float64 thresholds; rounding a threshold down to float32 decides the same. A
        leaf in float32 is 6e-8 of its value off.
        """
        trees = [estimator.tree_ for estimator in model.estimators_]
        columns = ("children_left", "children_right", "feature", "threshold")
        nodes = [[tree.children_left == -1, *(getattr(tree, name) for name in columns), tree.value[:, 0, 0]] for tree in trees]
        return cls._of(nodes, dtype)

    @classmethod
    def of_boosting(cls, model: Any, dtype: type[np.floating[Any]] = np.float32) -> Self:
        """Copy the trees of a fitted HistGradientBoostingRegressor of one output on numbers.

        It compares float64 values: in float32 rows are decided as it does only if they are float32 themselves.
        """
        tables = [predictor.nodes for (predictor,) in model._predictors]
        columns = ("left", "right", "feature_idx", "num_threshold", "value")
        nodes = [[table["is_leaf"] != 0, *(table[name] for name in columns)] for table in tables]
        return cls._of(nodes, dtype, np.array([model._baseline_prediction.item()]))

    @classmethod
    def _of(cls, trees: list[list[Any]], dtype: type[np.floating[Any]], start: NDArray[np.float64] | None = None) -> Self:
        """From each tree's nodes: whether one is a leaf, its children, feature, threshold and value, shape (nodes,) each."""
        features, skips, values = [], [], []
        for leaf, left, right, feature, threshold, value in trees:
            place = np.arange(len(leaf))
            if not (left[~leaf] == place[~leaf] + 1).all():
                raise AssertionError("scikit-learn no longer stores trees depth first")
            features.append(np.where(leaf, _LEAF, feature))
            skips.append(np.where(leaf, 0, right.astype(np.int64) - place))
            values.append(np.where(leaf, value.astype(dtype), _rounded_down(threshold, dtype)))
        return cls(
            np.cumsum([0, *(len(each) for each in values[:-1])], dtype=np.int32),
            np.concatenate(features).astype(np.int16),
            np.concatenate(skips).astype(np.int32),
            np.concatenate(values),
            start,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was fitted, as ``Trees(**arrays)`` takes it."""
        return {name: array for name, array in vars(self).items() if array is not None}

    def predict(self, X: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
        """Return the answer for each row of X, shape (n, features) -> (n,)."""
        values = X.astype(self.value.dtype).ravel()
        first = np.tile(np.arange(len(X)) * X.shape[1], len(self.roots))
        at = np.repeat(self.roots.astype(np.intp), len(X))
        while True:
            feature = self.feature.take(at)
            inner = feature != _LEAF
            if not inner.any():
                break
            left = values.take(first + np.maximum(feature, 0)) <= self.value.take(at)
            at += np.where(left, inner, self.skip.take(at))
        leaves = self.value.take(at).reshape(len(self.roots), len(X)).astype(np.float64)
        answer: NDArray[np.float64] = leaves.mean(axis=0) if self.start is None else leaves.sum(axis=0, initial=self.start[0])
        return answer


def _rounded_down(threshold: NDArray[np.float64], dtype: type[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The largest number of a type at or below each float64."""
    rounded = threshold.astype(dtype)
    return np.where(rounded > threshold, np.nextafter(rounded, dtype(-np.inf)), rounded)
