"""The paper's recipe as a predictor: its stack on one profile, with intervals of ours, as the paper has none."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from epochcast.regressor.answers import Answers
from epochcast.regressor.errors import InputError
from epochcast.regressor.evidence import LEFT_OUT
from epochcast.regressor.gpus import Catalog, Gpu, load_catalog
from epochcast.regressor.intervals import ScaledInterval, half_widths
from epochcast.regressor.manifest import PaperManifest
from epochcast.regressor.model_folder import load, save
from epochcast.regressor.pairs import Pair, make_pairs, source_seconds, target_seconds
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import PRECISIONS
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.predictor import LatencyPredictor, training_of, with_epoch
from epochcast.regressor.profile import METRICS, STATISTICS, Profile
from epochcast.regressor.protocols import Rows, out_of_fold
from epochcast.regressor.recipes import Recipe
from epochcast.regressor.recipes.paper import PaperRecipe
from epochcast.regressor.scaling import GpuCountScaling
from epochcast.regressor.scoring import conformal_quantile, score

SHIPPED = Path(__file__).parent / "models" / "paper"
"""The model that comes with the package."""

Route = Literal["stack", "new-gpu"]

PASSES = "on 96 traces of real GPUs the paper's passes were 76 % off (median)"
"""From docs/accuracy.md, "Paper by paper"."""

_BEYOND = "its trees cannot extrapolate beyond the training GPUs"


@dataclass(frozen=True)
class PaperPredictor:
    """A fitted :class:`~epochcast.regressor.recipes.paper.PaperRecipe` with what its answers need.

    Attributes:
        catalog: the possible target GPUs.
        recipe: the fitted recipe.
        accuracy: error figures per protocol, one shuffle of the folds.
        intervals: ``stack`` between GPUs of the training, ``new-gpu`` where one is not among them.
        training: what it was fitted on, as of :class:`~epochcast.regressor.predictor.LatencyPredictor`.
        seconds: the shortest and the longest epoch of the training; trees answer nothing beyond.
    """

    pipeline: ClassVar[Pipeline] = "paper"
    catalog: Catalog
    recipe: PaperRecipe
    accuracy: dict[str, dict[str, float]]
    intervals: dict[str, ScaledInterval]
    training: dict[str, Any]
    seconds: tuple[float, float]

    @classmethod
    def fit(
        cls,
        profiles: Sequence[Profile],
        catalog: Catalog,
        recipe: PaperRecipe | None = None,
        progress: Callable[[str], object] = lambda step: None,
    ) -> "PaperPredictor":
        """Fit on measured profiles, and measure intervals by leaving models (else workloads) and GPUs out: a dozen fits.

        ``progress`` is called with the name of each step before it.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs, or a profile cannot be trained on.
        """
        recipe = PaperRecipe() if recipe is None else clone(recipe)
        pairs = make_pairs(profiles, catalog)
        seconds, training = target_seconds(pairs), training_of(profiles, pairs)
        accuracy: dict[str, dict[str, float]] = {}

        def errors(protocol: str, also: Callable[[Recipe, Rows], object] = lambda fitted, test: None) -> NDArray[np.float64]:
            """Log errors of what was left out, shape (n,)."""

            def step(done: int, folds: int) -> None:
                progress(f"{protocol}: fit {done + 1} of {folds}")

            predicted, _, _ = out_of_fold(pairs, protocol, recipe, progress=step, also=also)
            accuracy[protocol] = asdict(score(seconds, predicted))
            return np.log(predicted / seconds)

        from_new: list[NDArray[np.float64]] = []  # P4 seen from the other end, where the recipe errs more

        def add_from_new(fitted: Recipe, test: Rows) -> None:
            out = [pair for pair in pairs if pair.source_gpu == pairs[test[0]].target_gpu]
            from_new.append(np.log(fitted.predict(out) / target_seconds(out)))

        try:
            protocol, left_out = "P3", errors("P3")
        except InputError:
            protocol, left_out = "P2", errors("P2")
        answers = _answers(pairs, seconds, training["gpus"])
        intervals = {"stack": ScaledInterval.of_errors(left_out, answers, protocol)}
        try:
            of_new = np.concatenate([errors("P4", add_from_new), *from_new])
            intervals["new-gpu"] = ScaledInterval(conformal_quantile(of_new), "P4", len(of_new))
        except InputError:  # of two GPUs none can be left out
            intervals["new-gpu"] = intervals["stack"]
        progress("fit")
        span = (float(seconds.min()), float(seconds.max()))
        return cls(catalog, recipe.fit(pairs), accuracy, intervals, training, span)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that a profile must have."""
        parts = [column.rpartition("_") for column in self.recipe.columns_]
        return tuple(sorted({metric for metric, _, statistic in parts if metric in METRICS and statistic in STATISTICS}))

    def predict(self, profile: Profile, targets: Sequence[str] | None = None) -> list[Prediction]:
        """Predict the latency on each target, or on every GPU of the catalogue, fastest first.

        Raises:
            InputError: the profile's GPU or a target is unknown or ambiguous, or the profile lacks what the stack learnt from.
        """
        source = self.catalog.resolve(profile.gpu)
        profile = _with_free_memory(profile, source)
        self._check(profile)
        requested = list(self.catalog.values()) if targets is None else [self.catalog.resolve(name) for name in targets]
        others = [Pair(profile, source, gpu) for gpu in dict.fromkeys(requested) if gpu != source]
        predictions = [LatencyPredictor.same_gpu(profile, source)] if source in requested else []
        if others:
            seconds = self.recipe.predict(others)
            if not (np.isfinite(seconds) & (seconds > 0)).all():
                raise InputError(f"the model of pipeline 'paper' answers {seconds.min():g} s; train it again")
            answers = _answers(others, seconds, self.training["gpus"], self._is_within(profile))
            widths = half_widths(self.intervals, answers)
            predictions += [self._prediction(pair, answers, row, float(widths[row])) for row, pair in enumerate(others)]
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    def note(self, profile: Profile) -> str:
        """What a reader of the answers should know of this recipe."""
        of = f"the paper's pipeline, fitted on {self.training['workloads']} workloads on {', '.join(self.training['gpus'])}"
        limits = f"{_BEYOND}; it does not know the precision; the intervals are ours, and hold no error of the epochs: {PASSES}"
        return f"{of}: {limits}{self._beyond(profile)}"

    def _beyond(self, profile: Profile) -> str:
        if self._is_within(profile):
            return ""
        low, high = self.seconds
        return f"; {profile.epoch_s:g} s are outside its training range of {low:.3g} to {high:.3g} s, so no interval is valid"

    def _is_within(self, profile: Profile) -> bool:
        return profile.epoch_s is not None and self.seconds[0] <= profile.epoch_s <= self.seconds[1]

    def _check(self, profile: Profile) -> None:
        lacks = [name for name in self.metrics if name not in profile.metrics]
        if profile.epoch_s is None:
            lacks.append("epoch seconds")
        if lacks:
            raise InputError(
                f"the profile lacks {', '.join(lacks)}, which the model of pipeline 'paper' was trained with; "
                "record the job with them, or use pipeline 'default', which needs none of them"
            )

    def _prediction(self, pair: Pair, answers: Answers, row: int, half_width: float) -> Prediction:
        profile, route = pair.source, str(answers.routes[row])
        ratio, factor = float(np.exp(answers.log_ratio[row])), float(np.exp(half_width))
        seconds = source_seconds([pair])[0] * ratio
        low, high = with_epoch(profile, seconds, half_width, half_width)
        new = [gpu for gpu in pair.gpus if gpu not in self.training["gpus"]]
        measured = f"nothing was measured on {' and '.join(new)}; {_BEYOND}" if new else "jobs measured on both GPUs"
        why = [
            f"the paper's recipe: {measured}",
            f"interval, ours, from {LEFT_OUT[self.intervals[route].protocol]}{self._beyond(profile)}",
            *(["the telemetry is simulated"] if profile.simulated else []),
        ]
        return Prediction(
            gpu=pair.target_gpu.name,
            ratio=ratio,
            seconds=seconds,
            low=low,
            high=high,
            why="; ".join(why),
            ratio_low=ratio / factor,
            ratio_high=ratio * factor,
            route=route,
            support=float(answers.support[row]),
            features=self.metrics,
            gpus=profile.gpus,
            waits=profile.wait_share,
        )

    def on_gpus(self, prediction: Prediction, gpus: int) -> Prediction:
        """The prediction for ``gpus`` of its GPU in each machine, by our figures: the paper has none."""
        return GpuCountScaling().on_gpus(prediction, self.catalog[prediction.gpu], gpus)

    def with_larger_batch(self, prediction: Prediction, source: Gpu) -> Prediction:
        """Refuse: the stack knows no batch."""
        raise InputError("pipeline 'paper' does not use the batch; leave out --batch-may-grow, or use pipeline 'default'")

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, whole or not at all; an older model there is replaced.

        Raises:
            InputError: ``folder`` exists and holds something else, or cannot be written.
        """
        state = {
            "parameters": self.recipe.get_params(),
            "columns": self.recipe.columns_,
            "seconds": self.seconds,
            "intervals": self.intervals,
            "training": self.training,
            "accuracy": self.accuracy,
        }
        save(Path(folder), PaperManifest, state, self.recipe.arrays())

    @classmethod
    def load(cls, folder: Path | None = None, catalog: Catalog | None = None) -> "PaperPredictor":
        """Read a model that :meth:`save` wrote, or the shipped one; nothing is unpickled.

        Raises:
            InputError: the folder is missing, of another recipe or version, or was changed after it was written.
        """
        manifest, arrays = load(SHIPPED if folder is None else Path(folder), PaperManifest)
        return cls(
            load_catalog() if catalog is None else catalog,
            PaperRecipe(**manifest.parameters).restore(manifest.columns, arrays),
            manifest.accuracy,
            manifest.intervals,
            manifest.training,
            manifest.seconds,
        )


def _with_free_memory(profile: Profile, gpu: Gpu) -> Profile:
    """The profile with the memory that is free, which few logs have, by what is used of the GPU's."""
    used = profile.metrics.get("memory_used")
    if used is None or "memory_free" in profile.metrics:
        return profile
    opposite = {"min": "max", "max": "min", "p25": "p75", "p75": "p25"}
    free = {name: used[name] if name == "std" else gpu.memory - used[opposite.get(name, name)] for name in STATISTICS}
    return replace(profile, metrics={**profile.metrics, "memory_free": free})


def _answers(pairs: Sequence[Pair], seconds: NDArray[np.float64], known: Sequence[str], within: bool = True) -> Answers:
    """The stack's seconds as answers; it has no uncertainty of its own, so each has the same scale."""
    routes: list[Route] = ["stack" if set(pair.gpus) <= set(known) else "new-gpu" for pair in pairs]
    named = np.array(routes, dtype=np.str_)
    groups = np.array([pair.source.group or "" for pair in pairs], dtype=np.str_)
    return Answers(
        np.log(seconds / source_seconds(pairs)),
        np.ones(len(pairs)),
        np.full(len(pairs), float(within)),
        named,
        named,
        groups,
        np.full((len(pairs), len(PRECISIONS)), np.nan),
    )
