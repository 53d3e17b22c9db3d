"""A predictor of occupancy fitted on labelled configurations, with the range that its errors on new networks give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ....regressor.errors import InputError as RegressorInputError
from ....regressor.model_folder import Manifest, fingerprint, load, save
from ...errors import InputError
from .features import EDGE_NAMES, NODE_NAMES
from .fitted_on import FittedOn
from .labelled_samples import LabelledSamples, Progress
from .models import Model, make
from .points import Labels, Target
from .reliability import Reliability, reliability_of
from .sample import Sample

_FEATURES = fingerprint([NODE_NAMES, EDGE_NAMES])
"""What a graph is told by: fitted numbers belong to these columns."""

DEFAULT_MODEL = "operator-mean"

FOLDS = 5
"""Groups of networks that are left out in turn to see the errors on new ones: so many more fits."""


class OccupancyManifest(Manifest):
    """The whole of ``model.json``; attributes as of :class:`Predictor`, ``state`` is the model's own."""

    SCHEMA = "epochcast.occupancy/v2"
    COMMAND = "epochcast train occupancy"

    features: str
    model: str
    target: Target
    labels: Labels
    settings: dict[str, Any]
    fitted_on: FittedOn
    reliability: Reliability | None
    state: dict[str, Any]


class Predictor:
    """Occupancy of configurations before they run.

    Attributes:
        model: name in ``models.MODELS``.
        target: what is told, one of ``points.TARGETS``.
        labels: where the occupancies that it was fitted on come from, one of ``points.LABELS``.
        settings: of the model, such as ``seed`` and ``epochs``.
        fitted_on: the rows.
        reliability: on networks that were left out; None where that was not tried.
    """

    def __init__(
        self,
        model: str,
        target: str,
        labels: str,
        settings: Mapping[str, Any],
        fitted_on: FittedOn,
        reliability: Reliability | None,
        fitted: Model,
    ) -> None:
        self.model = model
        self.target = target
        self.labels = labels
        self.settings = dict(settings)
        self.fitted_on = fitted_on
        self.reliability = reliability
        self._fitted = fitted

    @classmethod
    def fit(
        cls,
        data: LabelledSamples,
        model: str,
        target: str = "mean",
        settings: Mapping[str, Any] | None = None,
        folds: int = FOLDS,
        progress: Progress | None = None,
    ) -> Predictor:
        """Fit on all rows, after fits that leave groups of networks out, to see how far off it is on new ones.

        Args:
            data: rows with their graphs, of one kind of labels.
            model: name in ``models.MODELS``.
            target: one of ``points.TARGETS``.
            settings: of the model, such as ``seed`` and ``epochs``.
            folds: groups of networks; less than 2: a single fit, and no range.
            progress: told what is at work.

        Raises:
            InputError: there are too few rows for the model.
        """
        chosen = dict(settings or {})
        reliability = reliability_of(data, target, partial(unfitted, model, chosen, progress), folds, progress)
        if progress is not None:
            progress(f"fitting {model} on {len(data.samples)} rows")
        fitted = unfitted(model, chosen, progress).fit(data.samples, data.occupancies(target))
        return cls(model, target, data.labels, chosen, FittedOn.of(data), reliability, fitted)

    def predict(self, samples: Sequence[Sample]) -> pd.DataFrame:
        """A row per sample: ratios ``occupancy``, and ``low`` and ``high``, between which nine of ten new networks' labels lie.

        The range is NaN where none is known.
        """
        occupancy = np.asarray(self._fitted.predict(samples), dtype=np.float64)
        factor = float("nan") if self.reliability is None else self.reliability.factor
        low, high = occupancy / factor, np.minimum(occupancy * factor, 1.0)
        return pd.DataFrame({"occupancy": occupancy, "low": low, "high": high})

    def notes(self, samples: Sequence[Sample]) -> list[str]:
        """What makes the answer for these samples less sure, a sentence each."""
        return self.fitted_on.notes(samples)

    def save(self, folder: Path) -> None:
        """Write the predictor into a folder, whole or not at all.

        Raises:
            InputError: the folder holds something else or cannot be written.
        """
        own, arrays = self._fitted.state()
        state = {
            "features": _FEATURES,
            "model": self.model,
            "target": self.target,
            "labels": self.labels,
            "settings": self.settings,
            "fitted_on": self.fitted_on,
            "reliability": self.reliability,
            "state": own,
        }
        save(folder, OccupancyManifest, state, arrays)

    @classmethod
    def load(cls, folder: Path) -> Predictor:
        """Read what :meth:`save` wrote.

        Raises:
            InputError: a file is missing, damaged, or of another kind or version.
        """
        kept, arrays = load(folder, OccupancyManifest)
        if kept.features != _FEATURES:
            raise InputError(
                f"the model in {str(folder)!r} was fitted by epochcast {kept.epochcast:.20} on other features of graphs than "
                f"this version has; train it anew with `{OccupancyManifest.COMMAND}`"
            )
        try:
            fitted = make(kept.model, **kept.settings).restore(kept.state, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, RuntimeError) as error:
            if isinstance(error, InputError | RegressorInputError):
                raise
            raise InputError(
                f"the model in {str(folder)!r} is damaged ({type(error).__name__}: {error}); train it anew with "
                f"`{OccupancyManifest.COMMAND}`"
            ) from error
        return cls(kept.model, kept.target, kept.labels, kept.settings, kept.fitted_on, kept.reliability, fitted)


def unfitted(model: str, settings: Mapping[str, Any], progress: Progress | None = None) -> Model:
    """A model of ``models.MODELS`` with fields of ``models.Settings``, that tells each epoch of its training.

    Raises:
        InputError: there is none of this name, or a library that it needs is missing.
    """
    if progress is None:
        return make(model, **settings)
    tell = progress
    return make(
        model, progress=lambda epoch, epochs, loss: tell(f"{model}: epoch {epoch} of {epochs}, loss {loss:.4g}"), **settings
    )
