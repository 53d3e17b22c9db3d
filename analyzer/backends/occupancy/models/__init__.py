"""Models of occupancy by name: what each is fitted on are graphs on GPUs, what it answers is one number per graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.models.mean import Mean
from epochcast.analyzer.backends.occupancy.models.trees import StepTrees
from epochcast.analyzer.backends.occupancy.sample import Sample
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install

EPOCHS = 50
"""Of networks; the DNN-occu paper names no number."""


class Model(Protocol):
    """Made unfitted, then fitted or restored."""

    def fit(self, samples: Sequence[Sample], values: NDArray[np.float64]) -> Self:
        """Fit on samples and their labels, ratios or bytes above 0, shape (n,).

        Raises:
            InputError: a label is not above 0, there are too few, or a graph is too large for the model.
        """
        ...

    def predict(self, samples: Sequence[Sample]) -> NDArray[np.float64]:
        """The quantity that was learnt, shape (n,); a graph that is too large for the model raises InputError."""
        ...

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What was fitted: numbers as JSON, and arrays."""
        ...

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what :meth:`state` gave."""
        ...


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
        fit_settings = _imported(f"{__name__}.training", name).FitSettings(
            settings.epochs, settings.seed, progress=settings.progress
        )
        architectures = _imported(module, name)
        model: Model = _imported(f"{__name__}.graph_network", name).GraphNetwork(
            getattr(architectures, architecture), fit_settings
        )
        return model

    return made


def _imported(module: str, name: str) -> Any:
    """A module, when a model is made: PyTorch takes seconds to load, and may be absent."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:  # a library may be missing, or its shared objects
        raise InputError(
            f"the model {name} needs PyTorch or torch-geometric, which cannot be loaded ({error}); "
            f"{how_to_install('occupancy')}; or use trees"
        ) from error


MODELS: dict[str, Callable[[ModelSettings], Model]] = {
    "trees": lambda settings: StepTrees(settings.seed),
    "dnn-occu": network(f"{__name__}.dnn_occu", "DnnOccu", "dnn-occu"),
    "mean": lambda settings: Mean(),
}
"""By name, the default first; networks load PyTorch when they are made. Other models may be added."""


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
