"""Fitted models of occupancy by name: each answers one number per graph on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.models.trees import Mean, StepTrees
from epochcast.analyzer.errors import InputError
from epochcast.extras import how_to_install


class Model(Protocol):
    """Made empty, then restored."""

    def predict(self, samples: Sequence[Sample]) -> NDArray[np.float64]:
        """The quantity that was learnt, shape (n,); a graph that is too large for the model raises InputError."""
        ...

    def restore(self, settings: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take what was fitted: numbers as JSON, and arrays."""
        ...


def imported(module: str, name: str) -> Any:
    """A module, when a model is made: PyTorch takes seconds to load, and may be absent."""
    try:
        return import_module(module)
    except (ImportError, OSError) as error:  # a library may be missing, or its shared objects
        raise InputError(
            f"the model {name} needs PyTorch or torch-geometric, which cannot be loaded ({error}); "
            f"{how_to_install('occupancy')}; or use trees"
        ) from error


def _dnn_occu() -> Model:
    architecture = imported(f"{__name__}.dnn_occu", "dnn-occu").DnnOccu
    model: Model = imported(f"{__name__}.graph_network", "dnn-occu").GraphNetwork(architecture)
    return model


MODELS: dict[str, Callable[[], Model]] = {"trees": StepTrees, "dnn-occu": _dnn_occu, "mean": Mean}
"""By name, the default first; networks load PyTorch when they are made. Other models may be added."""


def make(name: str) -> Model:
    """An empty model by name.

    Raises:
        InputError: there is no such model, or a library that it needs is missing.
    """
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; known are {', '.join(MODELS)}")
    return MODELS[name]()
