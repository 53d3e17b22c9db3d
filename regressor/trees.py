"""Fitted trees as plain arrays: kept without pickle, evaluated with NumPy, with the answers of the library that fitted them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.arrays import part

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
        start: what boosted trees add up to; ``None``: a forest, whose answer is the mean of its trees.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    skip: NDArray[np.int32]
    value: NDArray[np.floating[Any]]
    start: float | None = None

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
        return cls._of(nodes, dtype, float(model._baseline_prediction.item()))

    @classmethod
    def _of(cls, trees: list[list[Any]], dtype: type[np.floating[Any]], start: float | None = None) -> Self:
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
        """Return what was fitted."""
        arrays: dict[str, NDArray[Any]] = {"roots": self.roots, "feature": self.feature, "skip": self.skip, "value": self.value}
        if self.start is not None:
            arrays["start"] = np.array([self.start])
        return arrays

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], name: str) -> Self:
        """Take what :meth:`arrays` gave, the part ``name`` of a model's arrays."""
        own = part(arrays, name)
        start = own.pop("start", None)
        return cls(**own, start=None if start is None else start.item())

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
        leaves = self.value.take(at).reshape(len(self.roots), len(X))
        answer: NDArray[np.float64]
        if self.start is None:
            answer = leaves.mean(axis=0, dtype=np.float64)
        else:
            answer = leaves.sum(axis=0, dtype=np.float64, initial=self.start)
        return answer


def _rounded_down(threshold: NDArray[np.float64], dtype: type[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """The largest number of a type at or below each float64."""
    rounded = threshold.astype(dtype)
    return np.where(rounded > threshold, np.nextafter(rounded, dtype(-np.inf)), rounded)
