"""A fitted forest as plain arrays: loaded without pickle, evaluated with NumPy, equal to scikit-learn's to the last bit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError

_LEAF = -1
_ARRAYS = {"roots": np.int32, "feature": np.int16, "threshold": np.float32, "right": np.int32, "value": np.float64}


@dataclass(frozen=True)
class Forest:
    """Regression trees in one set of arrays, nodes in depth-first order, so that a left child follows its parent.

    Attributes:
        roots: index of each tree's root, int32, shape (trees,).
        feature: column that a node splits on, −1 at a leaf, int16, shape (nodes,).
        threshold: a row goes left if its value is at most this, float32, shape (nodes,).
        right: index of a node's right child, itself at a leaf, int32, shape (nodes,).
        value: mean target at each leaf, 0 elsewhere, float64, shape (nodes,).
    """

    roots: NDArray[np.int32]
    feature: NDArray[np.int16]
    threshold: NDArray[np.float32]
    right: NDArray[np.int32]
    value: NDArray[np.float64]

    @classmethod
    def from_sklearn(cls, model: Any) -> "Forest":
        """Copy the trees of a fitted ExtraTreesRegressor or RandomForestRegressor of one output.

        scikit-learn compares float32 values with float64 thresholds; rounding a threshold down to float32 decides the same.
        """
        features, thresholds, rights, values, roots = [], [], [], [], []
        start = 0
        for estimator in model.estimators_:
            tree = estimator.tree_
            leaf = tree.children_left == -1
            nodes = np.arange(tree.node_count)
            if not (tree.children_left[~leaf] == nodes[~leaf] + 1).all():
                raise AssertionError("scikit-learn no longer stores trees depth first")
            roots.append(start)
            features.append(np.where(leaf, _LEAF, tree.feature))
            thresholds.append(np.where(leaf, np.float32(0), _round_down(tree.threshold)))
            rights.append(start + np.where(leaf, nodes, tree.children_right))
            values.append(np.where(leaf, tree.value[:, 0, 0], 0.0))
            start += tree.node_count
        return cls(
            np.array(roots, dtype=np.int32),
            np.concatenate(features).astype(np.int16),
            np.concatenate(thresholds).astype(np.float32),
            np.concatenate(rights).astype(np.int32),
            np.concatenate(values).astype(np.float64),
        )

    @classmethod
    def load(cls, path: Path, features: int) -> "Forest":
        """Read what :meth:`save` wrote, for rows of ``features`` columns; every walk through it stays inside and ends.

        Raises:
            InputError: the file is missing, holds another type or shape, or points outside the forest.
        """
        try:
            with np.load(path, allow_pickle=False) as arrays:
                forest = cls(**{name: np.asarray(arrays[name], dtype=kind) for name, kind in _ARRAYS.items()})
        except Exception as error:  # a damaged archive raises a dozen kinds, NotImplementedError and zlib.error among them
            raise InputError(f"the model file {path.name} cannot be read; train the model anew") from error
        if not forest._is_sound(features):
            raise InputError(f"the trees in {path.name} are not sound; train the model anew")
        return forest

    def save(self, path: Path) -> None:
        """Write the arrays as a compressed ``.npz``."""
        np.savez_compressed(path, allow_pickle=False, **{name: getattr(self, name) for name in _ARRAYS})

    def _is_sound(self, features: int) -> bool:
        """Whether children stand behind their parent and inside the forest, and splits name one of ``features`` columns."""
        size = self.feature.shape
        if len(size) != 1 or any(getattr(self, name).shape != size for name in ("threshold", "right", "value")):
            return False
        nodes, leaf = np.arange(len(self.feature)), self.feature == _LEAF
        return bool(
            self.roots.ndim == 1
            and self.roots.size
            and ((self.roots >= 0) & (self.roots < len(nodes))).all()
            and ((self.feature >= _LEAF) & (self.feature < features)).all()
            and (self.right < len(nodes)).all()
            and (self.right[~leaf] > nodes[~leaf] + 1).all()
            and (self.right[leaf] == nodes[leaf]).all()
        )

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean over the trees for each row of X, shape (n, features) -> (n,)."""
        rows = X.astype(np.float32)
        at = np.repeat(self.roots[:, None], len(rows), axis=1)
        column = np.arange(len(rows))[None, :]
        while True:
            feature = self.feature[at]
            inner = feature != _LEAF
            if not inner.any():
                break
            left = rows[column, np.maximum(feature, 0)] <= self.threshold[at]
            at = np.where(inner & left, at + 1, self.right[at])
        # A running sum adds tree by tree, as scikit-learn does; np.sum would add pairwise and differ in the last bit.
        total: NDArray[np.float64] = np.cumsum(self.value[at], axis=0)[-1]
        return total / len(self.roots)


def _round_down(threshold: NDArray[np.float64]) -> NDArray[np.float32]:
    """The largest float32 at or below each float64."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
