"""The fitted predictors: one profile in, latency on every GPU out."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import ROUTE as CALIBRATED
from epochcast.regressor.calibration import Calibration, calibrate
from epochcast.regressor.evidence import why
from epochcast.regressor.features import busy_share
from epochcast.regressor.gpus import Catalog, Gpu, load_catalog
from epochcast.regressor.intervals import ScaledInterval, half_widths
from epochcast.regressor.model_folder import Manifest, fingerprint, load, save
from epochcast.regressor.order import in_order
from epochcast.regressor.pairs import Pair, make_pairs
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import PRECISIONS, Precision, likely_precisions
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.profile import Profile
from epochcast.regressor.profile_json import profile_json
from epochcast.regressor.recipes import PaperRecipe
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.reliability import Progress, measure_reliability
from epochcast.regressor.scaling import GpuCountScaling
from epochcast.regressor.telemetry import METRICS, has_telemetry

_MODELS = Path(__file__).parent / "models"

SHIPPED = _MODELS / "default"
"""The model that comes with the package."""

# From the middle to either end of a 90 % interval, in standard deviations. The 95 % quantile of a normal distribution.
_TAIL = 1.645
# Of a job's log speed by the log of its batch on each GPU, mean and standard deviation: on average it changes little, by job it
# differs much. From the hierarchical model of the rates of ../shared/data/cross_gpu that decision 0074 replaced.
_OF_BATCH, _OF_BATCH_BY_JOB = 0.038, 0.30
# Within a work of the origin `lambda`, where batches are as large as memory allows, the log of the batch on each GPU rises by
# 1.15 with that of its memory (384 rates; 0.94 to 1.53 by network).
_BATCH_BY_MEMORY = 1.15


FittedRecipe = TypeVar("FittedRecipe", DefaultRecipe, PaperRecipe)


class RegressorManifest(Manifest):
    """The whole of ``model.json``."""

    SCHEMA = "epochcast.regressor/v9"
    COMMAND = "epochcast fit regressor"

    recipe: dict[str, Any]
    parameters: dict[str, Any]
    intervals: dict[str, ScaledInterval]
    training: dict[str, Any]
    accuracy: dict[str, dict[str, Any]]
    calibrations: list[Calibration]


@dataclass(frozen=True)
class RecipePredictor(ABC, Generic[FittedRecipe]):
    """A fitted recipe with everything that its answers need.

    Attributes:
        catalog: the possible target GPUs.
        recipe: the fitted recipe.
        accuracy: error figures per protocol, on pairs that were left out of the fit.
        intervals: per kind of answers, from the same pairs.
        training: what it was fitted on: profiles, pairs, workloads, GPUs, fingerprint.
        calibrations: corrections from anchors measured on new GPUs.
    """

    pipeline: ClassVar[Pipeline]
    manifest: ClassVar[type[RegressorManifest]]
    of_recipe: ClassVar[type[Any]]
    catalog: Catalog
    recipe: FittedRecipe
    accuracy: dict[str, dict[str, float]]
    intervals: dict[str, ScaledInterval]
    training: dict[str, Any]
    calibrations: tuple[Calibration, ...] = ()

    @classmethod
    def fit(
        cls,
        profiles: Sequence[Profile],
        catalog: Catalog,
        recipe: FittedRecipe | None = None,
        progress: Progress = lambda step: None,
    ) -> Self:
        """Fit on measured profiles, and measure accuracy and intervals by leaving workloads, models and GPUs out.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs, or a profile cannot be trained on.
        """
        unfitted = cls.of_recipe() if recipe is None else clone(recipe)
        pairs = make_pairs(profiles, catalog)
        accuracy, intervals = cls.measure(pairs, unfitted, progress)
        progress("fit")
        training = {
            "profiles": len(profiles),
            "pairs": len(pairs),
            "workloads": len({pair.source.workload for pair in pairs}),
            "gpus": sorted({pair.source_gpu.name for pair in pairs}),
            "fingerprint": fingerprint([profile_json(profile) for profile in profiles]),
        }
        return cls(catalog, unfitted.fit(pairs), accuracy, intervals, training)

    @classmethod
    @abstractmethod
    def measure(
        cls, pairs: Sequence[Pair], unfitted: FittedRecipe, progress: Progress
    ) -> tuple[dict[str, dict[str, float]], dict[str, ScaledInterval]]:
        """Accuracy and intervals of a recipe, see :meth:`fit`."""

    def predict(self, profile: Profile, targets: Sequence[str] | None = None) -> list[Prediction]:
        """Predict the latency on each target, or on every GPU of the catalogue, fastest first.

        Raises:
            InputError: the profile's GPU or a target is unknown or ambiguous, or the profile lacks what the recipe needs.
        """
        source = self.catalog.resolve(profile.gpu)
        requested = set(self.catalog) if targets is None else {self.catalog.resolve(name).name for name in targets}
        # All of them, also for few targets: answers depend on each other's order.
        others = [Pair(profile, source, gpu) for gpu in self.catalog.values() if gpu != source]
        predictions = list(self._answered(others, requested)) if others else []
        if source.name in requested:
            own = {"why": "the profile was taken on this GPU", "route": "measured", "support": 1.0, "features": ()}
            predictions.append(predicted(Pair(profile, source, source), (1.0, 1.0, 1.0), **own))
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    @abstractmethod
    def _answered(self, pairs: Sequence[Pair], requested: Set[str]) -> Iterator[Prediction]:
        """Predictions of one profile's pairs, those into the requested GPUs."""

    def on_gpus(self, prediction: Prediction, gpus: int) -> Prediction:
        """The prediction for ``gpus`` of its GPU in each machine, with the same batch on each (decision 0042)."""
        return GpuCountScaling().on_gpus(prediction, self.catalog[prediction.gpu], gpus)

    def with_larger_batch(self, prediction: Prediction, source: Gpu) -> Prediction:
        """The prediction with a batch that grows with the memory of its GPU above that of ``source``."""
        gpu, gpus = self.catalog[prediction.gpu], prediction.gpus
        batch = max(gpu.memory / source.memory, 1.0) ** _BATCH_BY_MEMORY
        if batch == 1:
            return prediction
        scaling = GpuCountScaling()
        log_factor = scaling.log_seconds(gpu, gpus, batch) - scaling.log_seconds(gpu, gpus)
        log_factor -= _OF_BATCH * math.log(batch)
        why = f"a batch {batch:.1f} times as large, for its memory: {math.exp(-log_factor):.2f} times as fast as the same batch"
        return prediction.changed(log_factor, _TAIL * _OF_BATCH_BY_JOB * math.log(batch), batch=batch, why=why)

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, completely or not at all; an older model there is replaced.

        Raises:
            InputError: ``folder`` exists with other content, or cannot be written.
        """
        state = {
            "recipe": self.recipe.state(),
            "parameters": self.recipe.get_params(),
            "intervals": self.intervals,
            "training": self.training,
            "accuracy": self.accuracy,
            "calibrations": self.calibrations,
        }
        save(Path(folder), self.manifest, state)

    @classmethod
    def load(cls, folder: Path | None = None, catalog: Catalog | None = None) -> Self:
        """Read a model that :meth:`save` wrote, or the shipped one; nothing is unpickled.

        Raises:
            InputError: the folder is missing, of another kind or version, or was changed after it was written.
        """
        kept, state = load(_MODELS / cls.pipeline if folder is None else Path(folder), cls.manifest)
        return cls(
            load_catalog() if catalog is None else catalog,
            cls.of_recipe(**kept.parameters).restore(state["recipe"]),
            kept.accuracy,
            kept.intervals,
            kept.training,
            tuple(kept.calibrations),
        )


class LatencyPredictor(RecipePredictor[DefaultRecipe]):
    """Epochcast's own recipe, corrected by anchors, its answers in order."""

    pipeline, manifest, of_recipe = "default", RegressorManifest, DefaultRecipe
    measure = staticmethod(measure_reliability)

    def calibrate(self, profiles: Sequence[Profile]) -> "LatencyPredictor":
        """Correct the answers for GPUs that training has not seen by a few workloads measured there and on a known GPU.

        A GPU calibrated before is calibrated again, from these measurements alone.

        Raises:
            InputError: no GPU is new, none is known, or the workloads are too few; see
                :func:`~epochcast.regressor.calibration.calibrate`.
        """
        new = calibrate(self.recipe, make_pairs(profiles, self.catalog))
        kept = [calibration for calibration in self.calibrations if calibration.gpu not in {other.gpu for other in new}]
        return replace(self, calibrations=(*kept, *new))

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair by the recipe, corrected where a GPU was calibrated."""
        answers = self.recipe.answer(pairs)
        for calibration in self.calibrations:
            answers = calibration.correct(pairs, answers)
        return answers

    def _answered(self, pairs: Sequence[Pair], requested: Set[str]) -> Iterator[Prediction]:
        answers, profile = self.answer(pairs), pairs[0].source
        likely, evidence = likely_precisions(profile, pairs[0].source_gpu)
        ordered = self._ordered(pairs, answers.log_ratio, likely, answers.routes)
        of_each = {name: answers.in_precision[:, PRECISIONS.index(name)] for name in likely if len(likely) > 1}
        by_precision = {name: self._ordered(pairs, log_ratio, [name], answers.routes) for name, log_ratio in of_each.items()}
        if by_precision:  # between them, also where their order moved them
            ordered = np.clip(ordered, np.min([*by_precision.values()], axis=0), np.max([*by_precision.values()], axis=0))
        widths = half_widths(self.intervals, answers)
        low, ratio, high = (_waited(profile, ordered + side * widths).tolist() for side in (-1, 0, 1))
        of_precision = {name: _waited(profile, log_ratio).tolist() for name, log_ratio in by_precision.items()}
        shown = {name for name in ("tensor_active", "fp16_active") if name in evidence}
        for row, pair in enumerate(pairs):
            if pair.target_gpu.name not in requested:
                continue
            each: dict[str, float] = {name: of[row] for name, of in of_precision.items()}
            route = str(answers.routes[row])
            yield predicted(
                pair,
                (low[row], ratio[row], high[row]),
                route=route,
                support=float(answers.support[row]),
                features=tuple(sorted(shown | self._used(pair, route))),
                by_precision=each,
                why=why(
                    pair,
                    route,
                    recipe=self.recipe,
                    protocol=self.intervals[str(answers.cells[row])].protocol,
                    calibrations=self.calibrations,
                    by_precision=each,
                    moved=float(ordered[row] - answers.log_ratio[row]),
                ),
            )

    def _ordered(
        self,
        pairs: Sequence[Pair],
        log_ratio: NDArray[np.float64],
        precisions: Collection[Precision],
        routes: NDArray[np.str_],
    ) -> NDArray[np.float64]:
        """Log ratios of one profile in the order of the GPUs, shape (n,); what jobs like it did stays."""
        model, gpus = self.recipe.telemetry_, [*(pair.target_gpu for pair in pairs), pairs[0].source_gpu]
        like = model is not None and all(model.covers(pairs[0].source, precision) for precision in precisions)
        kept = np.append((routes == "telemetry") & like, True)
        return in_order(np.append(log_ratio, 0.0), gpus, precisions, kept)[:-1]

    def _used(self, pair: Pair, route: str) -> set[str]:
        """The metrics of the profile that an answer of this route uses, but for those that show the precision."""
        if self.recipe.uses_telemetry(pair) or (route == CALIBRATED and has_telemetry(pair.source)):
            return set(METRICS)
        busy = busy_share(pair.source)[1]
        return {busy} if busy else set()


def predicted(pair: Pair, ratios: tuple[float, float, float], **answered: Any) -> Prediction:
    """The prediction of a pair.

    Args:
        pair: the question.
        ratios: the low end of the interval of target/source seconds, the ratio, and the high end.
        answered: the fields of a prediction that say how it was answered.
    """
    profile, (ratio_low, ratio, ratio_high) = pair.source, ratios
    seconds = low = high = None
    if profile.epoch_s is not None:
        # Log widths of the ratio and of the profile's own epoch are independent, so squares add.
        own_below, own_above = profile.epoch_widths
        seconds = profile.epoch_s * ratio
        low = seconds * math.exp(-math.hypot(math.log(ratio / ratio_low), own_below))
        high = seconds * math.exp(math.hypot(math.log(ratio_high / ratio), own_above))
    return Prediction(
        gpu=pair.target_gpu.name,
        ratio=ratio,
        seconds=seconds,
        low=low,
        high=high,
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        gpus=profile.gpus,
        waits=profile.wait_share,
        **answered,
    )


def _waited(profile: Profile, log_ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """The ratios if what the job waits for its checkpoints stays, beyond the idle time that the log ratios hold already.

    GPUs that wait for the one that saves look busy.
    """
    ratio, busy = np.exp(log_ratio), busy_share(profile)[0]
    looks_busy = min(max(profile.wait_share - (1 - busy), 0.0), busy)
    if not looks_busy:
        return ratio
    waited: NDArray[np.float64] = ratio + looks_busy * (1 - np.maximum(ratio - (1 - busy), 0.0) / busy)
    return waited
