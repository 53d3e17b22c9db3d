"""The fitted predictor: one profile in, latency on every GPU out."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from . import model_files
from .anchored import Anchoring
from .answers import Answers
from .calibration import ROUTE as CALIBRATED
from .calibration import Calibration, calibrate
from .derived import usable_metrics
from .errors import InputError
from .evidence import why
from .features import busy_share
from .gpus import Catalog, Gpu, load_catalog
from .intervals import Interval, half_widths
from .pairs import Pair, make_pairs
from .precision import likely_precisions, precision_metrics
from .prediction import Prediction
from .profile import Profile
from .recipes.default import DefaultRecipe
from .reliability import Reliability
from .typical import typical_by_gpu


@dataclass(frozen=True)
class Predictor:
    """A fitted recipe with what its answers need.

    Attributes:
        catalog: the GPUs that can be asked for.
        recipe: the fitted recipe.
        reliability: what its answers are worth, measured on pairs that it was fitted without.
        training: what it was fitted on: profiles, pairs, workloads, GPUs, fingerprint.
        typical: GPU -> metric -> statistics of a typical training job, what :mod:`~epochcast.regressor.explain` compares with.
        calibrations: corrections from anchors measured on new GPUs.
    """

    catalog: Catalog
    recipe: DefaultRecipe
    reliability: Reliability
    training: dict[str, Any]
    typical: dict[str, dict[str, dict[str, float]]]
    calibrations: tuple[Calibration, ...] = ()

    @classmethod
    def fit(
        cls,
        profiles: Sequence[Profile],
        catalog: Catalog,
        recipe: DefaultRecipe | None = None,
        progress: Callable[[str], object] = lambda step: None,
    ) -> "Predictor":
        """Fit on measured profiles, and measure accuracy and intervals by leaving workloads, models and GPUs out.

        ``progress`` is told of each step before it.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs, or a profile cannot be trained on.
        """
        recipe = DefaultRecipe() if recipe is None else clone(recipe)
        pairs = make_pairs(profiles, catalog)
        reliability = Reliability.measure(pairs, recipe, progress)
        training = {
            "profiles": len(profiles),
            "pairs": len(pairs),
            "workloads": len({pair.source.workload for pair in pairs}),
            "gpus": sorted({pair.source_gpu.name for pair in pairs}),
            "fingerprint": model_files.fingerprint([profile.to_json() for profile in profiles]),
        }
        return cls(catalog, recipe.fit(pairs).forgetting_jobs(), reliability, training, typical_by_gpu(profiles, catalog))

    def calibrate(self, profiles: Sequence[Profile]) -> "Predictor":
        """Correct the answers for GPUs that training has not seen by a few workloads measured there and on a known GPU.

        A GPU calibrated before is calibrated anew, from these measurements alone.

        Raises:
            InputError: no GPU is new, none is known, or the workloads are too few; see
                :func:`~epochcast.regressor.calibration.calibrate`.
        """
        new = calibrate(self.recipe, make_pairs(profiles, self.catalog))
        kept = [one for one in self.calibrations if one.gpu not in {other.gpu for other in new}]
        return replace(self, calibrations=(*kept, *new))

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair by the recipe, corrected where a GPU was calibrated."""
        answers = self.recipe.answer(pairs)
        for calibration in self.calibrations:
            answers = calibration.correct(pairs, answers)
        return answers

    def predict(self, profile: Profile, targets: Sequence[str] | None = None) -> list[Prediction]:
        """Predict the latency on each target, or on every GPU of the catalogue, fastest first.

        Raises:
            InputError: the profile's GPU or a target is unknown or ambiguous.
        """
        source = self.catalog.resolve(profile.gpu)
        asked = list(self.catalog.values()) if targets is None else [self.catalog.resolve(name) for name in targets]
        others = [Pair(profile, source, gpu) for gpu in dict.fromkeys(asked) if gpu != source]
        predictions = [self.same_gpu(profile, source)] if source in asked else []
        if others:
            answers = self.answer(others)
            widths = half_widths(self.reliability.intervals, answers)
            by_precision = self._by_precision(profile, others)
            for row, pair in enumerate(others):
                each = {name: float(ratios[row]) for name, ratios in by_precision.items()}
                predictions.append(self._prediction(pair, answers, row, float(widths[row]), each))
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    def _by_precision(self, profile: Profile, pairs: Sequence[Pair]) -> dict[str, NDArray[np.float64]]:
        """The ratios of each precision that is likely, shape (n,); nothing where only one is."""
        likely = likely_precisions(profile, pairs[0].source_gpu)[0]
        if len(likely) == 1:
            return {}
        asked = [replace(profile, precision=name) for name in likely]
        ratios = np.exp(self.answer([replace(pair, source=source) for source in asked for pair in pairs]).log_ratio)
        return dict(zip(likely, np.split(ratios, len(likely)), strict=True))

    @staticmethod
    def same_gpu(profile: Profile, source: Gpu) -> Prediction:
        """The answer for the GPU that the profile was taken on."""
        low, high = (None, None) if profile.epoch_s is None else with_epoch(profile, profile.epoch_s, 0.0)
        measured = "the profile was taken on this GPU"
        return Prediction(source.name, 1.0, profile.epoch_s, low, high, measured, 1.0, 1.0, "measured", 1.0, ())

    def _prediction(
        self, pair: Pair, answers: Answers, row: int, half_width: float, by_precision: dict[str, float]
    ) -> Prediction:
        profile, route = pair.source, str(answers.routes[row])
        ratio, factor = float(np.exp(answers.log_ratio[row])), float(np.exp(half_width))
        seconds = None if profile.epoch_s is None else profile.epoch_s * ratio
        low, high = (None, None) if seconds is None else with_epoch(profile, seconds, half_width)
        return Prediction(
            gpu=pair.target_gpu.name,
            ratio=ratio,
            seconds=seconds,
            low=low,
            high=high,
            why=why(
                pair,
                route,
                float(answers.support[row]),
                recipe=self.recipe,
                protocol=self.reliability.intervals[route].protocol,
                calibrations=self.calibrations,
                by_precision=by_precision,
            ),
            ratio_low=ratio / factor,
            ratio_high=ratio * factor,
            route=route,
            support=float(answers.support[row]),
            features=self._features(pair, route),
            by_precision=by_precision,
        )

    def _features(self, pair: Pair, route: str) -> tuple[str, ...]:
        """The metrics of the profile that an answer of this route uses."""
        profile, correction = pair.source, self.recipe.correction_
        used = set(precision_metrics(profile, pair.source_gpu))
        if correction is not None and (route == CALIBRATED or self.recipe.corrects([pair])[0]):
            used |= usable_metrics(profile) & set(correction.features_.metrics)
        elif busy := busy_share(profile)[1]:
            used.add(busy)
        return tuple(sorted(used))

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, whole or not at all; an older model there is replaced.

        Raises:
            InputError: ``folder`` exists and holds something else, or cannot be written.
        """
        state = {
            "recipe": self.recipe.state(),
            "parameters": self.recipe.get_params(),
            "intervals": {route: asdict(interval) for route, interval in self.reliability.intervals.items()},
            "training": self.training,
            "accuracy": self.reliability.accuracy,
            "anchoring": None if self.reliability.anchoring is None else self.reliability.anchoring.state(),
            "calibrations": [calibration.state() for calibration in self.calibrations],
            "typical": self.typical,
        }
        model_files.write(Path(folder), state, self.recipe.save)

    @classmethod
    def load(cls, folder: Path | None = None, catalog: Catalog | None = None) -> "Predictor":
        """Read a model that :meth:`save` wrote, or the shipped one; nothing is unpickled.

        Raises:
            InputError: the folder is missing, of another version, or was changed after it was written.
        """
        folder = model_files.SHIPPED if folder is None else Path(folder)
        state = model_files.read(folder)
        try:
            return cls(
                catalog=load_catalog() if catalog is None else catalog,
                recipe=DefaultRecipe(**state["parameters"]).load(folder, state["recipe"]),
                reliability=Reliability(
                    state["accuracy"],
                    {route: Interval(**values) for route, values in state["intervals"].items()},
                    None if state["anchoring"] is None else Anchoring.from_state(state["anchoring"]),
                ),
                training=state["training"],
                calibrations=tuple(Calibration.from_state(calibration) for calibration in state["calibrations"]),
                typical=state["typical"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the model in {str(folder)!r} lacks a part ({error}); train it anew") from error


def with_epoch(profile: Profile, seconds: float, half_width: float) -> tuple[float, float]:
    """The interval of ``seconds``, with the uncertainty of the profile's own epoch; both are independent, so squares add."""
    assert profile.epoch_s is not None
    below = 0.0 if profile.epoch_s_low is None else np.log(profile.epoch_s / profile.epoch_s_low)
    above = 0.0 if profile.epoch_s_high is None else np.log(profile.epoch_s_high / profile.epoch_s)
    return seconds / float(np.exp(np.hypot(half_width, below))), seconds * float(np.exp(np.hypot(half_width, above)))
