"""The recipe behind every answer: an ensemble on the log of target/source, and a prior where training data end."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
from catboost import CatBoostError, CatBoostRegressor
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor

from ..answers import Answers
from ..errors import InputError
from ..features import DERIVED, busy_share, derived_features, has_derived_features, prior_log_ratio
from ..forest import Forest
from ..pairs import Pair, actual_ratio, source_seconds

Route = Literal["ensemble", "residual", "prior", "specifications"]
"""How a pair is answered, from most evidence to least:

- ``ensemble``: both GPUs were paired in training: mean of extra trees and CatBoost.
- ``residual``: a GPU is new: the prior, corrected by part of what trees learnt about its error on other GPUs.
- ``prior``: a metric that the trees need is missing: the prior alone.
- ``specifications``: no activity metric at all: the prior with a busy share of 1, which is a ratio of data sheets.
"""

FOREST_FILE, RESIDUAL_FILE, BOOSTING_FILE = "forest.npz", "residual.npz", "boosting.cbm"
FILES = (FOREST_FILE, RESIDUAL_FILE, BOOSTING_FILE)


class DefaultRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Log ratio, two tree ensembles, and the zero-training prior off the training support (docs/decisions/0006).

    Args:
        trees: extra trees, in the ensemble and on the prior's residual.
        min_samples_leaf: 2 keeps every leaf an average, so that no training row's latency stands in a model file.
        iterations: CatBoost trees (absolute error: a few polluted epochs must not pull the rest).
        learning_rate: of CatBoost.
        rsm: share of features CatBoost looks at per split.
        residual_step: how much of the learnt residual a new GPU gets; half, fixed a priori.
        random_state: seed of all of them.
    """

    def __init__(
        self,
        trees: int = 200,
        min_samples_leaf: int = 2,
        iterations: int = 1000,
        learning_rate: float = 0.05,
        rsm: float = 0.5,
        residual_step: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.trees = trees
        self.min_samples_leaf = min_samples_leaf
        self.iterations = iterations
        self.learning_rate = learning_rate
        self.rsm = rsm
        self.residual_step = residual_step
        self.random_state = random_state

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on the measured pairs that hold every metric the derived features need.

        Raises:
            InputError: fewer than two pairs hold them, a pair is not measured, or the pairs are all alike.
        """
        usable = [pair for pair in pairs if has_derived_features(pair.source)]
        if len(usable) < 2:
            raise InputError(
                f"{len(usable)} of {len(pairs)} training pairs hold gpu_utilization, memory_utilization, power and sm_clock; "
                "at least 2 are needed, record these metrics"
            )
        X, log_ratio = derived_features(usable), np.log(actual_ratio(usable))
        workloads = {(pair.source_gpu.name, pair.target_gpu.name, pair.source.workload) for pair in usable}
        self.pairs_seen_ = dict(sorted(Counter((source, target) for source, target, _ in workloads).items()))
        self.forest_ = self._extra_trees(X, log_ratio)
        self.residual_ = self._extra_trees(X, log_ratio - prior_log_ratio(usable))
        boosting = CatBoostRegressor(
            loss_function="MAE",
            iterations=self.iterations,
            learning_rate=self.learning_rate,
            rsm=self.rsm,
            random_seed=self.random_state,
            thread_count=1,
            verbose=0,
            allow_writing_files=False,
        )
        try:
            self.boosting_ = boosting.fit(X, log_ratio)
        except CatBoostError as error:  # all ratios or all features equal
            raise InputError(f"nothing can be learnt from these {len(usable)} training pairs: {error}") from error
        # The same data give the same file: CatBoost stamps each fit with the time and a random id.
        metadata = self.boosting_.get_metadata()
        del metadata["train_finish_time"], metadata["model_guid"]
        return self

    def _extra_trees(self, X: NDArray[np.float64], y: NDArray[np.float64]) -> Forest:
        model = ExtraTreesRegressor(self.trees, min_samples_leaf=self.min_samples_leaf, random_state=self.random_state)
        return Forest.from_sklearn(model.fit(X, y))

    def _route(self, pair: Pair) -> Route:
        if busy_share(pair.source)[1] is None:
            return "specifications"
        if not has_derived_features(pair.source):
            return "prior"
        return "ensemble" if (pair.source_gpu.name, pair.target_gpu.name) in self.pairs_seen_ else "residual"

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair with its route, scale and support; needs no epoch seconds."""
        log_ratio = prior_log_ratio(pairs)
        routes = np.array([self._route(pair) for pair in pairs])
        for route in ("ensemble", "residual"):
            rows = np.flatnonzero(routes == route)
            if not rows.size:
                continue
            X = derived_features([pairs[row] for row in rows.tolist()])
            if route == "ensemble":
                log_ratio[rows] = (self.forest_.predict(X) + self.boosting_.predict(X)) / 2
            else:
                log_ratio[rows] += self.residual_step * self.residual_.predict(X)
        return Answers(log_ratio, np.ones(len(pairs)), np.ones(len(pairs)), routes)

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.answer(pairs).log_ratio)
        return seconds

    def save(self, folder: Path) -> None:
        """Write the fitted arrays into an existing folder; :meth:`get_params` and ``pairs_seen_`` are the caller's to keep."""
        self.forest_.save(folder / FOREST_FILE)
        self.residual_.save(folder / RESIDUAL_FILE)
        self.boosting_.save_model(str(folder / BOOSTING_FILE))

    def load(self, folder: Path, pairs_seen: dict[tuple[str, str], int]) -> Self:
        """Read what :meth:`save` wrote; nothing is unpickled.

        Raises:
            InputError: a file is missing or not what it should be.
        """
        self.pairs_seen_ = pairs_seen
        self.forest_ = Forest.load(folder / FOREST_FILE, features=len(DERIVED))
        self.residual_ = Forest.load(folder / RESIDUAL_FILE, features=len(DERIVED))
        try:
            self.boosting_ = CatBoostRegressor().load_model(str(folder / BOOSTING_FILE))
        except CatBoostError as error:
            raise InputError(f"the model file {BOOSTING_FILE} cannot be read; train the model anew") from error
        return self
