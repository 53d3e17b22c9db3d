"""What a training takes of a GPU before it runs: fitted on measured trainings, and modelled where none was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy import SHIPPED
from epochcast.analyzer.backends.occupancy.answer import LABELS, Errors, Estimate, Filled, FittedModel
from epochcast.analyzer.backends.occupancy.graph.computation_graph import RECURRENT
from epochcast.analyzer.backends.occupancy.modelled import model_sm_use
from epochcast.analyzer.backends.occupancy.networks import Sample
from epochcast.analyzer.backends.occupancy.peak_memory import PeakMemory, base_memory, estimate
from epochcast.analyzer.backends.occupancy.step_features import STEP_FEATURES, FittedRange, step_features
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from epochcast.regressor.model_folder import Manifest, load
from epochcast.regressor.trees import Trees

RATIOS = ("sm_occupancy", "sm_active")
"""Labels that :class:`StepTrees` learn; :class:`.peak_memory.PeakMemory` learns the other."""

WITHIN_FACTOR = {"sm_occupancy": 2.1, "sm_active": 1.7, "peak_memory": 1.2}
"""By label: nine of ten counters are within modelled / factor to modelled x factor.

Of ratios: random CNNs in training on an A100, known networks in inference and training on an H200, three kinds of equal weight,
the widest of those that leave a kind out. Of memory: CNNs in training on an A100. ``lab/speed/occupancy/modelled.py`` measures
them.
"""

MLP_FACTOR = {"sm_occupancy": 4.9, "sm_active": 4.9}
"""The same of networks of dense layers alone, whose GPU waits for the host in ways that launches do not show."""

_COMPUTING = {"convolution", "attention", "matmul", *RECURRENT}
"""What networks have that are more than dense layers."""

_HALF = (0.5, 0.68, 1.0)
"""Of a training's memory in FP32, what one takes in 16 bits: least, usual, most. FP32's own weights and states remain, and no
more than half of the rest is saved. ``lab/speed/occupancy/modelled.py`` has four mixed trainings on an H200: 0.54 to 0.73."""

_SMALL = 0.1
"""Share of a step below which unknown operators matter little: no more than the usual error."""


class OccupancyManifest(Manifest):
    """The whole of ``model.json``; attributes as of :class:`.answer.FittedModel`.

    ``outputs``: mean and standard deviation of the logarithms that trees learnt, by label; ``memory``: the peak memory's own.
    """

    SCHEMA = "epochcast.occupancy/v4"
    COMMAND = "fit occupancy"

    features: list[str]
    gpus: list[str]
    rows: dict[str, int]
    errors: dict[str, Errors]
    range: FittedRange
    outputs: dict[str, tuple[float, float]]
    memory: dict[str, Any]


@dataclass(frozen=True)
class StepTrees:
    """Boosted trees on standardised logarithms of a ratio; they do not go beyond the labels that they saw."""

    mean: float
    scale: float
    trees: Trees

    def predict(self, samples: Sequence[Sample]) -> NDArray[np.float64]:
        """Shape (n,); n is 1 or more."""
        rows = np.stack([step_features(sample) for sample in samples])
        return np.asarray(np.exp(self.mean + self.scale * self.trees.predict(rows)))


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
    ratios: Mapping[str, StepTrees]
    memory: PeakMemory

    def predict(self, sample: Sample, catalog: Catalog) -> Filled:
        """What a training takes; its graph is :meth:`~.graph.computation_graph.ComputationGraph.in_training`.

        ``catalog`` says which GPUs are of one chip. Raises InputError where the limits of the GPU's SMs are not known.
        """
        figures: dict[str, Any] = {}
        if not self.why_modelled(sample, catalog):
            peak, low, high, crash = self.memory.predict([sample])[:, 0].tolist()
            memory = Estimate(value=peak, low=low, high=high, basis="measured")
            figures = {"peak_memory": memory, "out_of_memory": crash, "fits": crash < 0.5}
            for label, trees in self.ratios.items():
                value, factor = min(float(trees.predict([sample])[0]), 1.0), self.fitted.errors[label].factor
                figures[label] = Estimate(value=value, low=value / factor, high=min(value * factor, 1.0), basis="measured")
        if not figures.keys() >= LABELS.keys():
            figures = model_training(sample) | figures
        return Filled(gpu=sample.gpu.name, batch=sample.configuration.batch, **figures)

    def why_modelled(self, sample: Sample, catalog: Catalog) -> str:
        """Why measured trainings say nothing of a sample; empty where they do."""
        if sample.configuration.precision != "fp32":
            return f"trainings were measured in fp32, not in {sample.configuration.precision}"
        if self.range.unknown_share(sample) > _SMALL:
            return f"{self._lacking(sample)}, which is more than {100 * _SMALL:.0f} % of the step"
        chips = {(gpu.compute_capability, gpu.sm_count) for gpu in map(catalog.resolve, self.fitted.gpus)}
        if (sample.gpu.compute_capability, sample.gpu.sm_count) not in chips:
            return f"{sample.gpu.name} was not measured, only {', '.join(self.fitted.gpus)}"
        return ""

    def notes(self, samples: Sequence[Sample], catalog: Catalog) -> list[str]:
        """What is modelled of these samples, and what makes the rest less sure, a sentence each."""
        notes, answered = [], []
        for sample in samples:
            if reason := self.why_modelled(sample, catalog):
                notes.append(
                    f"{reason}: SM occupancy and activity are modelled by the launches of a forward pass and the limits of the "
                    "GPU's SMs, peak memory by shapes; ranges are those of counters of other networks"
                )
                continue
            answered.append(sample)
            if sample.gpu.name not in self.fitted.gpus:
                notes.append(f"trainings were measured on {', '.join(self.fitted.gpus)}, the same chip as {sample.gpu.name}")
            if self.range.unknown_operators(sample):
                notes.append(f"{self._lacking(sample)}, which is less than {100 * _SMALL:.0f} % of the step")
        return [*dict.fromkeys(notes), *self.range.beyond(answered)]

    def _lacking(self, sample: Sample) -> str:
        return f"no measured training has {', '.join(self.range.unknown_operators(sample))}"

    @classmethod
    def load(cls, folder: Path = SHIPPED) -> OccupancyPredictor:
        """Read a fitted predictor, the shipped one unless another is named.

        Raises:
            InputError: a file is missing, damaged, or of another kind or version.
        """
        kept, arrays = load(folder, OccupancyManifest)
        if tuple(kept.features) != STEP_FEATURES:
            raise InputError(
                f"the model in {str(folder)!r} was fitted by epochcast {kept.epochcast:.20} on other features of graphs than "
                f"this version has; train it again with `{OccupancyManifest.COMMAND}`"
            )
        ratios = {label: StepTrees(*own, Trees(**arrays[label])) for label, own in kept.outputs.items()}
        fitted = FittedModel(**{name: getattr(kept, name) for name in FittedModel.model_fields})
        return cls(fitted, kept.range, ratios, PeakMemory.restore(kept.memory, arrays["peak_memory"]))


def model_training(sample: Sample) -> dict[str, Any]:
    """Fields of :class:`.answer.Filled` where nothing was measured: from the launches of a forward pass, and from shapes.

    Raises:
        InputError: the limits of the GPU's SMs are not known, or the network launches nothing.
    """
    precision = sample.configuration.precision
    use = model_sm_use(sample.graph, sample.gpu, precision)
    base, peak = base_memory(sample), estimate(sample).peak
    least, usual, most = _HALF if precision != "fp32" else (1.0, 1.0, 1.0)
    factor = WITHIN_FACTOR["peak_memory"]
    # CUDA's own part was measured on one GPU, and may be less on another
    low, high = (peak - base) * least / factor, (base + (peak - base) * most) * factor
    memory = Estimate(value=base + (peak - base) * usual, low=low, high=high, basis="modelled")
    fits = True if high <= sample.gpu.memory else False if low > sample.gpu.memory else None
    factors = MLP_FACTOR if _COMPUTING.isdisjoint(sample.graph.words) else WITHIN_FACTOR
    ratios = {label: _within(value, factors[label]) for label, value in zip(RATIOS, use, strict=True)}
    return {**ratios, "peak_memory": memory, "out_of_memory": None, "fits": fits}


def _within(ratio: float, factor: float) -> Estimate:
    return Estimate(value=ratio, low=ratio / factor, high=min(ratio * factor, 1.0), basis="modelled")
