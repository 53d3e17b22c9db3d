"""Models of occupancy that can be fitted, by name: the product's, and those that rivals add."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.models import Model as FittedModel
from epochcast.analyzer.backends.occupancy.models import imported
from epochcast.analyzer.backends.occupancy.models.trees import Floats, Mean, StepTrees
from epochcast.analyzer.backends.occupancy.peak_memory import PeakMemory
from epochcast.analyzer.backends.occupancy.predictor import FEATURES, OccupancyManifest, OccupancyPredictor
from epochcast.analyzer.errors import InputError
from epochcast.regressor.arrays import under
from epochcast.regressor.model_folder import save
from epochcast.regressor.trees import Trees
from lab.occupancy.learnt import learnt, output_of

EPOCHS = 50
"""Of networks; the DNN-occu paper names no number."""

# By choice, between a few values on folds of equal networks: many small steps, and columns that are much alike take turns.
_TREES = 600
_RATE = 0.05
_LEAVES = 15
_LEAST_ROWS = 8
_COLUMNS = 0.4


class Model(FittedModel, Protocol):
    """Made unfitted, then fitted or restored."""

    def fit(self, samples: Sequence[Sample], values: NDArray[np.float64]) -> Self:
        """Fit on samples and their labels, ratios or bytes above 0, shape (n,).

        Raises:
            InputError: a label is not above 0, there are too few, or a graph is too large for the model.
        """
        ...

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        ...


class FittedMean(Mean):
    """The geometric mean of the labels."""

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Take the mean; values that cannot be raise InputError."""
        self._output = output_of(values, len(samples))
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was fitted."""
        return asdict(self._output), {}


class FittedTrees(StepTrees):
    """scikit-learn's boosted trees."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def fit(self, samples: Sequence[Sample], values: Floats) -> Self:
        """Fit the trees; values that cannot be raise InputError."""
        self._output = output_of(values, len(samples))
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
        rows = self.rows(samples)
        with threadpool_limits(1):  # rows are few: threads that wait for each other take 20 times as long on a busy machine
            model.fit(rows.astype(np.float32), learnt(self._output, values))
        self._trees = Trees.of_boosting(model)
        return self

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        return {"output": asdict(self._output)}, under("trees", self._trees.arrays())


@dataclass(frozen=True)
class ModelSettings:
    """Options of all models; each takes what it needs.

    Args:
        seed: of a network's first weights and of the order of its steps.
        epochs: how often a network sees every sample.
        progress: called by a network after each epoch: epoch from 1, epochs, mean loss of the epoch.
    """

    seed: int = 0
    epochs: int = EPOCHS
    progress: Callable[[int, int, float], object] | None = None


def network(module: str, architecture: str, name: str) -> Callable[[ModelSettings], Model]:
    """A network by its module and its class, under a name."""

    def made(settings: ModelSettings) -> Model:
        training = imported("lab.occupancy.training", name)
        fit_settings = training.FitSettings(settings.epochs, settings.seed, progress=settings.progress)
        model: Model = training.TrainedNetwork(getattr(imported(module, name), architecture), fit_settings)
        return model

    return made


MODELS: dict[str, Callable[[ModelSettings], Model]] = {
    "trees": lambda settings: FittedTrees(settings.seed),
    "dnn-occu": network("epochcast.analyzer.backends.occupancy.models.dnn_occu", "DnnOccu", "dnn-occu"),
    "mean": lambda settings: FittedMean(),
}
"""By name, the default first; networks load PyTorch when they are made."""

DEFAULT_MODEL = next(iter(MODELS))


def make(name: str, **settings: Any) -> Model:
    """An unfitted model by name, with fields of :class:`ModelSettings`.

    Raises:
        InputError: there is no such model, a library that it needs is missing, or there are no epochs.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; known are {', '.join(MODELS)}")
    chosen = ModelSettings(**settings)
    if chosen.epochs < 1:
        raise InputError(f"cannot train for {chosen.epochs} epochs; give 1 or more")
    return MODELS[name](chosen)


def save_predictor(predictor: OccupancyPredictor, folder: Path) -> None:
    """Write a predictor whose models were fitted here into a folder, whole or not at all.

    Raises:
        InputError: the folder holds something else or cannot be written.
    """
    states = {label: cast("Model", model).state() for label, model in predictor.ratios.items()}
    states["peak_memory"] = _state_of(predictor.memory)
    arrays = {name: array for label, (_, own) in states.items() for name, array in under(label, own).items()}
    state = {
        "features": FEATURES,
        **dict(predictor.fitted),
        "range": predictor.range,
        "states": {label: own for label, (own, _) in states.items()},
    }
    save(folder, OccupancyManifest, state, arrays)


def _state_of(memory: PeakMemory) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    risk = None if memory.risk is None else memory.risk.tolist()
    return {"half_width": memory.half_width, "risk": risk}, under("trees", memory.trees.arrays())
