"""What a training takes of a GPU before it runs: SM occupancy, SM activity and peak memory, fitted on measured trainings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.analyzer.backends.occupancy import SHIPPED
from epochcast.analyzer.backends.occupancy.answer import Errors, FittedModel, Interval, Training
from epochcast.analyzer.backends.occupancy.configuration import Sample
from epochcast.analyzer.backends.occupancy.features import EDGE_NAMES, NODE_NAMES
from epochcast.analyzer.backends.occupancy.fitted_range import FittedRange
from epochcast.analyzer.backends.occupancy.models import Model, make
from epochcast.analyzer.backends.occupancy.peak_memory import PeakMemory
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from epochcast.regressor.arrays import part
from epochcast.regressor.model_folder import Manifest, load

RATIOS = ("sm_occupancy", "sm_active")
"""Labels that a model of ``models.MODELS`` learns; :class:`.peak_memory.PeakMemory` learns the other."""

_SMALL = 0.1
"""Share of a step below which unknown operators matter little: no more than the usual error."""

FEATURES = [*NODE_NAMES, *EDGE_NAMES]
"""A model folder's weights belong to these columns."""


class OccupancyManifest(Manifest):
    """The whole of ``model.json``; attributes as of :class:`.answer.FittedModel`, ``states`` the models' own by label."""

    SCHEMA = "epochcast.occupancy/v3"
    COMMAND = "fit occupancy"

    features: list[str]
    model: str
    settings: dict[str, Any]
    gpus: list[str]
    rows: dict[str, int]
    errors: dict[str, Errors]
    range: FittedRange
    states: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class OccupancyPredictor:
    """Measured trainings, carried over to others.

    Attributes:
        fitted: what it rests on.
        range: of the fitted trainings.
        ratios: what learnt each of :data:`RATIOS`.
        memory: what learnt the peak memory.
    """

    fitted: FittedModel
    range: FittedRange
    ratios: Mapping[str, Model]
    memory: PeakMemory

    def predict(self, samples: Sequence[Sample], catalog: Catalog) -> list[Training]:
        """A training for each sample, whose graphs are :meth:`~.graph.computation_graph.ComputationGraph.in_training`.

        Labels are None for networks with many operators that no fitted training has, or in another precision than FP32; those
        of the SMs also on chips that were not measured. ``catalog`` says which GPUs are of one chip.
        """
        known = [not self.unknown(sample) for sample in samples]
        measured = [answered and self._same_chip(sample, catalog) for answered, sample in zip(known, samples, strict=True)]
        answers: list[dict[str, Any]] = [dict.fromkeys(Training.model_fields) for _ in samples]
        for label, model in self.ratios.items():
            if any(measured):
                values = np.minimum(model.predict(list(compress(samples, measured))), 1.0)
                for answer, value in zip(compress(answers, measured), values.tolist(), strict=True):
                    answer[label] = self._interval(label, value)
        if any(known):
            peaks = self.memory.predict(list(compress(samples, known)))
            for answer, (peak, low, high, crash) in zip(compress(answers, known), np.array(peaks).T.tolist(), strict=True):
                answer |= {"peak_memory": Interval(value=peak, low=low, high=high), "out_of_memory": crash}
        return [Training(**answer) for answer in answers]

    def _interval(self, label: str, ratio: float) -> Interval:
        if label not in self.fitted.errors:
            return Interval(value=ratio, low=None, high=None)
        factor = self.fitted.errors[label].factor
        return Interval(value=ratio, low=ratio / factor, high=min(ratio * factor, 1.0))

    def unknown(self, sample: Sample) -> str:
        """Why nothing can be known of a training; empty where it can."""
        if sample.configuration.precision != "fp32":
            return f"trainings were measured in fp32, not in {sample.configuration.precision}"
        if self.range.unknown_share(sample) > _SMALL:
            return f"{self._lacking(sample)}, which is more than {100 * _SMALL:.0f} % of the step"
        return ""

    def notes(self, samples: Sequence[Sample], catalog: Catalog) -> list[str]:
        """What is not known of these samples, and what makes the rest less sure, a sentence each."""
        notes = [
            f"{reason}: no SM occupancy, SM activity or peak memory" for sample in samples if (reason := self.unknown(sample))
        ]
        answered = [sample for sample in samples if not self.unknown(sample)]
        for sample in answered:
            if not self._same_chip(sample, catalog):
                notes.append(
                    f"{sample.gpu.name} was not measured, only {', '.join(self.fitted.gpus)}: no SM occupancy or SM activity, "
                    "and CUDA's own part of the memory may differ"
                )
            elif sample.gpu.name not in self.fitted.gpus:
                notes.append(f"trainings were measured on {', '.join(self.fitted.gpus)}, the same chip as {sample.gpu.name}")
            if self.range.unknown_operators(sample):
                notes.append(f"{self._lacking(sample)}, which is less than {100 * _SMALL:.0f} % of the step")
        return [*dict.fromkeys(notes), *self.range.beyond(answered)]

    def _lacking(self, sample: Sample) -> str:
        return f"no measured training has {', '.join(self.range.unknown_operators(sample))}"

    def _same_chip(self, sample: Sample, catalog: Catalog) -> bool:
        chips = {(gpu.compute_capability, gpu.sm_count) for gpu in map(catalog.resolve, self.fitted.gpus)}
        return (sample.gpu.compute_capability, sample.gpu.sm_count) in chips

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> OccupancyPredictor:
        """Read a fitted predictor, the shipped one unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind or version.
        """
        kept, arrays = load(folder, OccupancyManifest)
        if kept.features != FEATURES:
            raise InputError(
                f"the model in {str(folder)!r} was fitted by epochcast {kept.epochcast:.20} on other features of graphs than "
                f"this version has; train it again with `{OccupancyManifest.COMMAND}`"
            )
        parts = {label: (state, part(arrays, label)) for label, state in kept.states.items()}
        memory = PeakMemory.restore(*parts.pop("peak_memory"))
        ratios = {label: make(kept.model).restore(*own) for label, own in parts.items()}
        fitted = FittedModel(**{name: getattr(kept, name) for name in FittedModel.model_fields})
        return cls(fitted, kept.range, ratios, memory)
