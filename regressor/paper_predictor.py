"""The paper's recipe as a predictor: its stack on one profile, with intervals of ours, as the paper has none."""

import math
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.errors import InputError
from epochcast.regressor.evidence import LEFT_OUT
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, source_seconds, target_seconds
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.predictor import RecipePredictor, RegressorManifest, predicted
from epochcast.regressor.profile import METRICS, STATISTICS, Profile
from epochcast.regressor.protocols import Rows
from epochcast.regressor.recipes import PaperRecipe, Recipe
from epochcast.regressor.reliability import Progress, leave_out
from epochcast.regressor.scoring import conformal_quantile

PASSES = "on 96 traces of real GPUs the paper's passes were 76 % off (median)"
"""From docs/accuracy.md, "Paper by paper"."""

_BEYOND = "its trees cannot extrapolate beyond the training GPUs"


class PaperManifest(RegressorManifest):
    """The whole of ``model.json`` of the paper's pipeline."""

    SCHEMA = "epochcast.regressor.paper/v5"
    COMMAND = "epochcast fit regressor --pipeline paper"


class PaperPredictor(RecipePredictor[PaperRecipe]):
    """The paper's stack; its intervals are ``stack`` between GPUs of the training, ``new-gpu`` where one is not among them."""

    pipeline, manifest, of_recipe = "paper", PaperManifest, PaperRecipe

    @classmethod
    def measure(
        cls, pairs: Sequence[Pair], unfitted: PaperRecipe, progress: Progress
    ) -> tuple[dict[str, dict[str, float]], dict[str, ScaledInterval]]:
        """Leave models (else workloads) and GPUs out: a dozen fits."""
        protocol, figures, errors = leave_out(pairs, ("P3", "P2"), unfitted, progress)
        known = ScaledInterval.of_errors(errors, np.array([pair.source.group or "" for pair in pairs]), protocol)
        from_new: list[NDArray[np.float64]] = []  # P4 seen from the other end, where the recipe errs more

        def add_from_new(fitted: Recipe, test: Rows) -> None:
            out = [pair for pair in pairs if pair.source_gpu == pairs[test[0]].target_gpu]
            from_new.append(np.log(fitted.predict(out) / target_seconds(out)))

        try:
            _, of_new, into_new = leave_out(pairs, ("P4",), unfitted, progress, add_from_new)
        except InputError:  # of two GPUs none can be left out
            return {protocol: figures}, {"stack": known, "new-gpu": known}
        errors = np.concatenate([into_new, *from_new])
        new = ScaledInterval(conformal_quantile(errors), "P4", len(errors))
        return {protocol: figures, "P4": of_new}, {"stack": known, "new-gpu": new}

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics that a profile must have."""
        parts = [column.rpartition("_") for column in self.recipe.columns_]
        return tuple(sorted({metric for metric, _, statistic in parts if metric in METRICS and statistic in STATISTICS}))

    def _answered(self, pairs: Sequence[Pair], requested: Set[str]) -> Iterator[Prediction]:
        profile = _with_free_memory(pairs[0].source, pairs[0].source_gpu)
        self._check(profile)
        pairs = [replace(pair, source=profile) for pair in pairs if pair.target_gpu.name in requested]
        if not pairs:
            return
        seconds = self.recipe.predict(pairs)
        if not (np.isfinite(seconds) & (seconds > 0)).all():
            raise InputError(f"the model of pipeline 'paper' answers {seconds.min():g} s; train it again")
        for pair, answer in zip(pairs, seconds.tolist(), strict=True):
            new = [gpu for gpu in pair.gpus if gpu not in self.training["gpus"]]
            route = "new-gpu" if new else "stack"
            interval, ratio = self.intervals[route], answer / float(source_seconds([pair])[0])
            measured = f"nothing was measured on {' and '.join(new)}; {_BEYOND}" if new else "jobs measured on both GPUs"
            why = [
                f"the paper's recipe: {measured}",
                f"interval, ours, from {LEFT_OUT[interval.protocol]}{self._beyond(profile)}",
                *(["the telemetry is simulated"] if profile.simulated else []),
            ]
            yield predicted(
                pair,
                (ratio * math.exp(-interval.multiple), ratio, ratio * math.exp(interval.multiple)),
                why="; ".join(why),
                route=route,
                support=float(not self._beyond(profile)),
                features=self.metrics,
            )

    def note(self, profile: Profile) -> str:
        """What a reader of the answers should know of this recipe."""
        of = f"the paper's pipeline, fitted on {self.training['workloads']} workloads on {', '.join(self.training['gpus'])}"
        limits = f"{_BEYOND}; it does not know the precision; the intervals are ours, and hold no error of the epochs: {PASSES}"
        return f"{of}: {limits}{self._beyond(profile)}"

    def _beyond(self, profile: Profile) -> str:
        """What to say of an epoch outside those of the training; nothing of one among them."""
        low, high = self.recipe.seconds_
        if profile.epoch_s is not None and low <= profile.epoch_s <= high:
            return ""
        return f"; {profile.epoch_s:g} s are outside its training range of {low:.3g} to {high:.3g} s, so no interval is valid"

    def _check(self, profile: Profile) -> None:
        lacks = [name for name in self.metrics if name not in profile.metrics]
        if profile.epoch_s is None:
            lacks.append("epoch seconds")
        if lacks:
            raise InputError(
                f"the profile lacks {', '.join(lacks)}, which the model of pipeline 'paper' was trained with; "
                "record the job with them, or use pipeline 'default', which needs none of them"
            )

    def with_larger_batch(self, prediction: Prediction, source: Gpu) -> Prediction:
        """Refuse: the stack knows no batch."""
        raise InputError("pipeline 'paper' does not use the batch; leave out --batch-may-grow, or use pipeline 'default'")


def _with_free_memory(profile: Profile, gpu: Gpu) -> Profile:
    """The profile with the memory that is free, which few logs have, by what is used of the GPU's."""
    used = profile.metrics.get("memory_used")
    if used is None or "memory_free" in profile.metrics:
        return profile
    opposite = {"min": "max", "max": "min", "p25": "p75", "p75": "p25"}
    free = {name: used[name] if name == "std" else gpu.memory - used[opposite.get(name, name)] for name in STATISTICS}
    return replace(profile, metrics={**profile.metrics, "memory_free": free})
