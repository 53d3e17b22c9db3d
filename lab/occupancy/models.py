"""Models of SM occupancy and activity that can be fitted, by name: the product's trees, the paper's network, the mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.analyzer.backends.occupancy.predictor import OccupancyManifest, OccupancyPredictor, StepTrees
from epochcast.analyzer.backends.occupancy.step_features import STEP_FEATURES, step_features
from epochcast.analyzer.errors import InputError
from epochcast.regressor.model_folder import save
from epochcast.regressor.trees import Trees

Floats = NDArray[np.float64]

EPOCHS = 30
"""Of DNN-occu; its paper names no number."""

# By choice, between a few values on folds of equal networks: many small steps, and columns that are much alike take turns.
_TREES = 600
_RATE = 0.05
_LEAVES = 15
_LEAST_ROWS = 8
_COLUMNS = 0.4


class Predicts(Protocol):
    """A fitted model."""

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """The quantity that was learnt, shape (n,)."""
        ...


class Model(Predicts, Protocol):
    """Made unfitted, then fitted."""

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit on samples and their labels, ratios or bytes above 0, shape (n,).

        Raises:
            InputError: a label is not above 0, there are too few, or a graph is too large for the model.
        """
        ...


@dataclass
class Mean:
    """The geometric mean of the labels, for all."""

    mean: float = 1.0

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Take the mean; values that cannot be raise InputError."""
        self.mean = float(np.exp(moments_of(values, len(samples))[0]))
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return np.full(len(samples), self.mean)


@dataclass
class FittedTrees:
    """scikit-learn's boosted trees as the product's."""

    seed: int = 0
    fitted: StepTrees = field(init=False)

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit the trees; values that cannot be raise InputError."""
        mean, scale = moments_of(values, len(samples))
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        model = HistGradientBoostingRegressor(
            max_iter=_TREES,
            learning_rate=_RATE,
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST_ROWS,
            max_features=_COLUMNS,
            early_stopping=False,
            random_state=self.seed,
        )
        rows = np.stack([step_features(sample) for sample in samples])
        with threadpool_limits(1):  # rows are few: threads that wait for each other take 20 times as long on a busy machine
            model.fit(rows.astype(np.float32), (np.log(values) - mean) / scale)
        self.fitted = StepTrees(mean, scale, Trees.of_boosting(model))
        return self

    def predict(self, samples: Sequence[Sample]) -> Floats:
        """Shape (n,)."""
        return self.fitted.predict(samples)


def moments_of(values: Floats, samples: int) -> tuple[float, float]:
    """Mean and standard deviation of the logarithms of values to learn from, shape (n,).

    Raises:
        InputError: there are none, not one per sample, or one is not above 0.
    """
    if len(values) != samples or not samples:
        raise InputError(f"{samples} samples have {len(values)} labels; give one label per sample, and one sample or more")
    allowed = (values > 0) & np.isfinite(values)
    if not allowed.all():
        raise InputError(f"a label is {values[~allowed][0]:g}, but labels are finite and above 0; leave such rows out")
    logarithms = np.log(values)
    return float(logarithms.mean()), float(logarithms.std()) or 1.0


def _dnn_occu(seed: int, epochs: int) -> Model:
    from lab.occupancy.network import TrainedNetwork  # torch takes seconds to load

    return TrainedNetwork(seed, epochs)


MODELS: dict[str, Callable[[int, int], Model]] = {
    "trees": lambda seed, epochs: FittedTrees(seed),
    "dnn-occu": _dnn_occu,
    "mean": lambda seed, epochs: Mean(),
}
"""By name, the default first: an unfitted model of a seed and a number of epochs, which the network alone needs."""

DEFAULT_MODEL = next(iter(MODELS))


def save_predictor(predictor: OccupancyPredictor, folder: Path) -> None:
    """Write a predictor into a folder, whole or not at all.

    Raises:
        InputError: the folder holds something else or cannot be written.
    """
    memory = predictor.memory
    state = {
        "features": list(STEP_FEATURES),
        **dict(predictor.fitted),
        "range": predictor.range,
        "outputs": {label: (trees.mean, trees.scale) for label, trees in predictor.ratios.items()},
        "memory": {"half_width": memory.half_width, "risk": None if memory.risk is None else memory.risk.tolist()},
    }
    arrays: dict[str, Any] = {label: trees.trees.arrays() for label, trees in predictor.ratios.items()}
    arrays["peak_memory"] = {"trees": memory.trees.arrays()}
    save(folder, OccupancyManifest, state | arrays)
