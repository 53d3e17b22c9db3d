"""A fitted forest as plain arrays: loaded without pickle, evaluated with NumPy, scikit-learn's answers in single precision."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Shape, load_arrays, save_arrays
from .errors import InputError

_LEAF = -1

# Forests here learn logs of ratios; a leaf beyond a factor of e^20 was forged. By choice.
_LARGEST_LEAF = 20.0

_ARRAYS: dict[str, tuple[type, Shape]] = {
    "roots": (np.int32, ("trees",)),
    "feature": (np.int16, ("nodes",)),
    "skip": (np.int32, ("nodes",)),
    "value": (np.float32, ("nodes",)),
}


@dataclass(frozen=True)
class Forest:
    """Regression trees in one set of arrays, nodes in depth-first order, so that a left child follows its parent.

    Attributes:
        roots: index of each tree's root, int32, shape (trees,).
        feature: column that a node splits on, −1 at a leaf, int16, shape (nodes,).
        skip: how many nodes further the right child stands, 0 at a leaf, int32, shape (nodes,).
        value: the mean target at a leaf; at a split its threshold, a row goes left if its value is at most this; float32, shape
            (nodes,). One array, as no node has both: with ``skip`` in the place of an index it halves the file.
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    skip: NDArray[np.int32]
    value: NDArray[np.float32]

    @classmethod
    def from_sklearn(cls, model: Any) -> "Forest":
        """Copy the trees of a fitted ExtraTreesRegressor or RandomForestRegressor of one output.

        scikit-learn compares float32 values with float64 thresholds; rounding a threshold down to float32 decides the same. A
        leaf is rounded to float32, 6e-8 of its value.
        """
        features, skips, values, sizes = [], [], [], []
        for estimator in model.estimators_:
            tree = estimator.tree_
            leaf = tree.children_left == -1
            nodes = np.arange(tree.node_count)
            if not (tree.children_left[~leaf] == nodes[~leaf] + 1).all():
                raise AssertionError("scikit-learn no longer stores trees depth first")
            features.append(np.where(leaf, _LEAF, tree.feature))
            skips.append(np.where(leaf, 0, tree.children_right - nodes))
            values.append(np.where(leaf, tree.value[:, 0, 0].astype(np.float32), _round_down(tree.threshold)))
            sizes.append(tree.node_count)
        return cls(
            np.cumsum([0, *sizes[:-1]], dtype=np.int32),
            np.concatenate(features).astype(np.int16),
            np.concatenate(skips).astype(np.int32),
            np.concatenate(values),
        )

    @classmethod
    def load(cls, path: Path, features: int) -> "Forest":
        """Read what :meth:`save` wrote, for rows of ``features`` columns; every walk through it stays inside and ends.

        Raises:
            InputError: the file is missing, holds another type or shape, points outside the forest, or a leaf is no log ratio.
        """
        forest = cls(**load_arrays(path, _ARRAYS))
        if not forest._is_sound(features):
            raise InputError(f"the trees in {path.name} are not sound; train the model anew")
        return forest

    def save(self, path: Path) -> None:
        """Write the arrays to a file."""
        save_arrays(path, {name: getattr(self, name) for name in _ARRAYS})

    def _is_sound(self, features: int) -> bool:
        """Whether children stand behind their parent and inside, splits name one of ``features`` columns, leaves log ratios."""
        nodes, leaf = np.arange(len(self.feature)), self.feature == _LEAF
        return bool(
            self.roots.size
            and ((self.roots >= 0) & (self.roots < len(nodes))).all()
            and ((self.feature >= _LEAF) & (self.feature < features)).all()
            and (self.skip[~leaf] > 1).all()
            and (self.skip[leaf] == 0).all()
            and (np.abs(self.value[leaf]) <= _LARGEST_LEAF).all()
            and (self.skip < len(nodes) - nodes).all()
        )

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over the trees for each row of X, shape (n, features) -> (n,)."""
        values = X.astype(np.float32).ravel()
        first = np.tile(np.arange(len(X)) * X.shape[1], len(self.roots))
        at = np.repeat(self.roots.astype(np.intp), len(X))
        while True:
            feature = self.feature.take(at)
            inner = feature != _LEAF
            if not inner.any():
                break
            left = values.take(first + np.maximum(feature, 0)) <= self.value.take(at)
            at += np.where(left, inner, self.skip.take(at))
        mean: NDArray[np.float64] = self.value.take(at).reshape(len(self.roots), len(X)).mean(axis=0, dtype=np.float64)
        return mean


def _round_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 at or below each float64."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
