"""The fitted predictor: one profile in, latency on every GPU out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from . import model_files
from .answers import Answers
from .errors import InputError
from .features import DERIVED, NEEDED_METRICS, busy_share, prior_log_ratio
from .gpus import Catalog, Gpu, load_catalog
from .intervals import Interval, half_widths
from .pairs import Pair, actual_ratio, make_pairs, target_seconds
from .prediction import Prediction
from .profile import Profile
from .protocols import out_of_fold
from .recipes.default import FILES, DefaultRecipe
from .scoring import score
from .typical import typical_by_gpu

# What the prior reads of a data sheet; an answer that rests on an unverified one of these says so.
_PRIOR_FIGURES = ("sm_count", "cuda_cores", "boost_clock", "memory_bandwidth")

_EVIDENCE = {
    "P2": "workloads left out of training",
    "P3": "models left out of training",
    "P4": "GPUs left out of training",
    "prior": "the errors of utilisation and data sheets alone",
}


@dataclass(frozen=True)
class Predictor:
    """A fitted recipe with what its answers need.

    Attributes:
        catalog: the GPUs that can be asked for.
        recipe: the fitted recipe.
        intervals: per route, measured on pairs that the recipe was fitted without.
        training: what it was fitted on: profiles, pairs, workloads, GPUs, fingerprint.
        accuracy: error figures on the training data per protocol, one shuffle of the folds.
        typical: GPU -> metric -> statistics of a typical training job, what :mod:`~epochcast.regressor.explain` compares with.
    """

    catalog: Catalog
    recipe: DefaultRecipe
    intervals: dict[str, Interval]
    training: dict[str, Any]
    accuracy: dict[str, dict[str, float]]
    typical: dict[str, dict[str, dict[str, float]]]

    @classmethod
    def fit(cls, profiles: Sequence[Profile], catalog: Catalog, recipe: DefaultRecipe | None = None) -> "Predictor":
        """Fit on measured profiles, and measure accuracy and intervals by leaving workloads, models and GPUs out.

        A protocol that the data are too few for is left out: intervals then come from P2 instead of P3, and from the prior
        instead of P4.

        Raises:
            InputError: fewer than five workloads were seen on two GPUs, or a profile cannot be trained on.
        """
        recipe = DefaultRecipe() if recipe is None else clone(recipe)
        pairs = make_pairs(profiles, catalog)
        actual = target_seconds(pairs)
        accuracy: dict[str, dict[str, float]] = {}
        intervals = _prior_intervals(pairs)
        for protocol in ("P2", "P3", "P4"):  # a later one leaves more out, and its errors take the place of an earlier one's
            try:
                predicted, _, answers = out_of_fold(pairs, protocol, recipe)
            except InputError:
                if protocol == "P2":
                    raise
                continue
            assert answers is not None
            accuracy[protocol] = asdict(score(actual, predicted))
            route = "residual" if protocol == "P4" else "ensemble"
            rows = np.flatnonzero(answers.routes == route)
            if rows.size:
                intervals[route] = Interval.of_errors(np.log(predicted / actual)[rows], answers[rows], protocol)
        training = {
            "profiles": len(profiles),
            "pairs": len(pairs),
            "workloads": len({pair.source.workload for pair in pairs}),
            "gpus": sorted({pair.source_gpu.name for pair in pairs}),
            "fingerprint": model_files.fingerprint([profile.to_json() for profile in profiles]),
        }
        return cls(catalog, recipe.fit(pairs), intervals, training, accuracy, typical_by_gpu(profiles, catalog))

    def predict(self, profile: Profile, targets: Sequence[str] | None = None) -> list[Prediction]:
        """Predict the latency on each target, or on every GPU of the catalogue, fastest first.

        Raises:
            InputError: the profile's GPU or a target is unknown or ambiguous.
        """
        source = self.catalog.resolve(profile.gpu)
        asked = list(self.catalog.values()) if targets is None else [self.catalog.resolve(name) for name in targets]
        others = [Pair(profile, source, gpu) for gpu in dict.fromkeys(asked) if gpu != source]
        predictions = [self._same(profile, source)] if source in asked else []
        if others:
            answers = self.recipe.answer(others)
            widths = half_widths(self.intervals, answers)
            predictions += [self._prediction(pair, answers, row, float(widths[row])) for row, pair in enumerate(others)]
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    @staticmethod
    def _same(profile: Profile, source: Gpu) -> Prediction:
        low, high = (None, None) if profile.epoch_s is None else _with_epoch(profile, profile.epoch_s, 0.0)
        why = "the profile was taken on this GPU"
        return Prediction(source.name, 1.0, profile.epoch_s, low, high, why, 1.0, 1.0, "measured", 1.0, ())

    def _prediction(self, pair: Pair, answers: Answers, row: int, half_width: float) -> Prediction:
        profile, route = pair.source, str(answers.routes[row])
        ratio, factor = float(np.exp(answers.log_ratio[row])), float(np.exp(half_width))
        seconds = None if profile.epoch_s is None else profile.epoch_s * ratio
        low, high = (None, None) if seconds is None else _with_epoch(profile, seconds, half_width)
        return Prediction(
            gpu=pair.target_gpu.name,
            ratio=ratio,
            seconds=seconds,
            low=low,
            high=high,
            why=self._why(pair, route),
            ratio_low=ratio / factor,
            ratio_high=ratio * factor,
            route=route,
            support=float(answers.support[row]),
            features=tuple(metric for metric in NEEDED_METRICS if metric in profile.metrics),
        )

    def _why(self, pair: Pair, route: str) -> str:
        source, target, profile = pair.source_gpu, pair.target_gpu, pair.source
        gpus = self.training["gpus"]
        if route == "ensemble":
            seen = self.recipe.pairs_seen_[source.name, target.name]
            why = f"trees trained on {seen} workloads measured on both GPUs; interval from {self._evidence(route)}"
        elif route == "residual":
            new = [gpu.name for gpu in (source, target) if gpu.name not in gpus]
            what = f"{' and '.join(new)} not in the training data" if new else "a pair of GPUs that training has not seen"
            evidence = f"{self._evidence(route)} ({', '.join(gpus)})"
            why = f"{what}: utilisation and data sheets, corrected by trees; interval from {evidence}"
        elif route == "prior":
            missing = [metric for metric in NEEDED_METRICS if metric not in profile.metrics]
            why = f"the profile lacks {', '.join(missing)}: {busy_share(profile)[1]} and data sheets alone"
        else:
            why = "the profile holds no activity metric: data sheets alone, as if the GPU were always busy"
        unverified = [figure for figure in _PRIOR_FIGURES if figure in target.unverified or figure in source.unverified]
        if route != "ensemble" and unverified:
            why += f"; unverified: {', '.join(unverified)}"
        if profile.epoch_s is None:
            why += "; no epoch or step was found, so the ratio stands alone"
        if profile.simulated:
            why += "; the telemetry is simulated"
        return why

    def _evidence(self, route: str) -> str:
        return _EVIDENCE[self.intervals[route].protocol]

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, whole or not at all; an older model there is replaced.

        Raises:
            InputError: ``folder`` exists and holds something else, or cannot be written.
        """
        state = {
            "features": list(DERIVED),
            "parameters": self.recipe.get_params(),
            "pairs_seen": [[*names, count] for names, count in self.recipe.pairs_seen_.items()],
            "intervals": {route: asdict(interval) for route, interval in self.intervals.items()},
            "training": self.training,
            "accuracy": self.accuracy,
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
        state = model_files.read(folder, FILES)
        if state.get("features") != list(DERIVED):
            raise InputError(f"the model in {str(folder)!r} was fitted on other features; train it anew with this version")
        try:
            pairs_seen = {(source, target): count for source, target, count in state["pairs_seen"]}
            return cls(
                catalog=load_catalog() if catalog is None else catalog,
                recipe=DefaultRecipe(**state["parameters"]).load(folder, pairs_seen),
                intervals={route: Interval(**values) for route, values in state["intervals"].items()},
                training=state["training"],
                accuracy=state["accuracy"],
                typical=state["typical"],
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the model in {str(folder)!r} lacks a part ({error}); train it anew") from error


def _prior_intervals(pairs: Sequence[Pair]) -> dict[str, Interval]:
    """Intervals of the answers that learn nothing: their errors on the training pairs are as good as any."""
    log_ratio = np.log(actual_ratio(pairs))
    bare = [replace(pair, source=replace(pair.source, metrics={}, feature_set="none")) for pair in pairs]
    one = np.ones(len(pairs))

    def of(asked: Sequence[Pair]) -> Interval:
        answers = Answers(prior_log_ratio(asked), one, one, np.full(len(asked), "prior"))
        return Interval.of_errors(answers.log_ratio - log_ratio, answers, "prior")

    prior = of(pairs)
    return {"ensemble": prior, "residual": prior, "prior": prior, "specifications": of(bare)}


def _with_epoch(profile: Profile, seconds: float, half_width: float) -> tuple[float, float]:
    """The interval of ``seconds``, with the uncertainty of the profile's own epoch; both are independent, so squares add."""
    assert profile.epoch_s is not None
    below = 0.0 if profile.epoch_s_low is None else np.log(profile.epoch_s / profile.epoch_s_low)
    above = 0.0 if profile.epoch_s_high is None else np.log(profile.epoch_s_high / profile.epoch_s)
    return seconds / float(np.exp(np.hypot(half_width, below))), seconds * float(np.exp(np.hypot(half_width, above)))
