"""The paper's fitted stack in files: skops for scikit-learn's models, JSON for CatBoost's; forged trees are refused.

skops trusts neither kind of scikit-learn's trees by itself, as their nodes are walked without a look at bounds, and CatBoost
trusts what it loads. So each tree is held to its bounds before anything is asked of it.
"""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.tree._tree import Tree

from .arrays import LIMIT
from .errors import InputError

FOREST_FILE, BOOSTER_FILE, META_FILE = FILES = ("forest.skops", "catboost.json", "meta.skops")

_LEADS_OUT = "a tree leads out of its bounds"


@dataclass(frozen=True)
class Stack:
    """A fitted stack: ``meta`` answers from the two columns that ``forest`` and ``booster`` answer, in seconds."""

    forest: Any
    booster: Any
    meta: Any

    @classmethod
    def of(cls, regressor: Any) -> "Stack":
        """The parts of a fitted :class:`sklearn.ensemble.StackingRegressor`."""
        forest, booster = regressor.estimators_
        return cls(forest, booster, regressor.final_estimator_)

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return seconds, shape (n, features) -> (n,), those of the StackingRegressor to the last digit."""
        columns = np.column_stack([self.forest.predict(X), self.booster.predict(X)])
        seconds: NDArray[np.float64] = self.meta.predict(columns)
        return seconds

    def save(self, folder: Path) -> None:
        """Write the parts into an existing folder."""
        from catboost import CatBoostError
        from skops import io

        (folder / FOREST_FILE).write_bytes(io.dumps(self.forest))
        (folder / META_FILE).write_bytes(io.dumps(self.meta))
        try:
            self.booster.save_model(str(folder / BOOSTER_FILE), format="json")
        except CatBoostError as error:
            raise OSError(str(error)) from error
        Stack.load(folder, self.forest.n_features_in_)  # on a full disk CatBoost may lose the last bytes without an error

    @classmethod
    def load(cls, folder: Path, features: int) -> "Stack":
        """Read what :meth:`save` wrote, for rows of ``features`` columns.

        Raises:
            InputError: a file is damaged, holds another type, or a tree that leads out of its bounds.
        """
        parts = []
        for name, read in ((FOREST_FILE, _forest), (BOOSTER_FILE, _booster), (META_FILE, _meta)):
            try:
                parts.append(read(folder / name, features))
            except Exception as error:  # what is damaged or forged raises a dozen kinds
                reason = " ".join(str(error).split())[:160]
                raise InputError(f"the model file {name} cannot be used ({reason}); train the model anew") from error
        return cls(*parts)


def _forest(path: Path, features: int) -> Any:
    forest = _skops(path, RandomForestRegressor)
    trees = [estimator.tree_ for estimator in forest.estimators_]
    sound = all(
        type(tree) is Tree
        and tree.node_count == tree.capacity
        and (tree.n_outputs, tree.max_n_classes) == (1, 1)
        and _ends(tree.children_left, tree.children_right, tree.feature, tree.children_left == -1, features)
        for tree in trees
    )
    return _probed(forest, features, sound)


def _meta(path: Path, features: int) -> Any:
    meta = _skops(path, HistGradientBoostingRegressor)
    trees = [tree.nodes for trees in meta._predictors for tree in trees]
    sound = all(
        nodes.dtype == PREDICTOR_RECORD_DTYPE
        and not nodes["is_categorical"].any()
        and _ends(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] != 0, 2)
        for nodes in trees
    )
    return _probed(meta, 2, sound)


def _skops(path: Path, kind: type) -> Any:
    """What skops finds in a file, if it is of this kind and unpacks to no more than an array file may."""
    from skops import io

    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > LIMIT:
        raise ValueError(f"it unpacks to {size} bytes, more than {LIMIT}")
    model = io.load(path, trusted=[f"{each.__module__}.{each.__name__}" for each in (Tree, TreePredictor)])
    if type(model) is not kind:
        raise ValueError(f"it holds a {type(model).__name__}, not a {kind.__name__}")
    return model


def _booster(path: Path, features: int) -> Any:
    from catboost import CatBoostRegressor

    stored = json.loads(path.read_text("utf-8"))
    columns, trees = stored["features_info"].pop("float_features"), stored["oblivious_trees"]
    borders = [(number, border) for number, column in enumerate(columns) for border in column["borders"]]
    sound = (
        set(stored) == {"features_info", "model_info", "oblivious_trees", "scale_and_bias"}
        and not stored["features_info"]  # neither categories nor texts
        and [(one["feature_index"], one["flat_feature_index"]) for one in columns] == [(n, n) for n in range(features)]
        and all(_halves(tree, borders) for tree in trees)
    )
    if not sound:
        raise ValueError(_LEADS_OUT)
    booster = CatBoostRegressor()
    booster.load_model(str(path), format="json")
    # CatBoost's reader of JSON is off by the last digit.
    booster.set_leaf_values(np.concatenate([tree["leaf_values"] for tree in trees]))
    scale, (bias,) = stored["scale_and_bias"]
    booster.set_scale_and_bias(scale, bias)
    return _probed(booster, features, sound)


def _halves(tree: Any, borders: list[tuple[int, float]]) -> bool:
    """Whether each split of a tree is at a known border, and there are as many leaves as its splits make."""
    known = all(
        split["split_type"] == "FloatFeature"
        and split["split_index"] in range(len(borders))
        and borders[split["split_index"]] == (split["float_feature_index"], split["border"])
        for split in tree["splits"]
    )
    return known and len(tree["leaf_values"]) == len(tree["leaf_weights"]) == 2 ** len(tree["splits"])


def _ends(left: Any, right: Any, feature: Any, leaf: NDArray[np.bool_], features: int) -> bool:
    """Whether every walk through a tree stays inside and ends: children stand behind their parent, splits name a column."""
    nodes = np.arange(len(leaf))
    inside = [(nodes < child) & (child < len(nodes)) for child in (left, right)]
    return len(nodes) > 0 and bool((leaf | (inside[0] & inside[1] & (feature >= 0) & (feature < features))).all())


def _probed(model: Any, features: int, sound: bool) -> Any:
    """The model, if its trees are sound and it answers a row with a number."""
    if not sound:
        raise ValueError(_LEADS_OUT)
    (answer,) = model.predict(np.zeros((1, features)))
    if not np.isfinite(answer):
        raise ValueError(f"it answers {answer}")
    return model
