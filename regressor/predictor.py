"""The fitted predictor: one profile in, latency on every GPU out."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from . import model_files
from .errors import InputError
from .features import DERIVED, NEEDED_METRICS, busy_share, prior_log_ratio
from .gpus import Catalog, Gpu, load_catalog
from .pairs import Pair, actual_ratio, make_pairs, target_seconds
from .prediction import Prediction
from .profile import Profile
from .protocols import out_of_fold
from .recipes.default import FILES, DefaultRecipe, Route
from .scoring import conformal_quantile, score

# What the prior reads of a data sheet; an answer that rests on an unverified one of these says so.
_PRIOR_FIGURES = ("sm_count", "cuda_cores", "boost_clock", "memory_bandwidth")

_EVIDENCE = {
    "P2": "workloads left out of training",
    "P3": "models left out of training",
    "P4": "GPUs left out of training",
    "prior": "the errors of utilisation and data sheets alone",
}


@dataclass(frozen=True)
class Interval:
    """Half-width of the 90 % interval of one route, in log seconds, and the protocol whose ``n`` errors gave it."""

    half_width: float
    protocol: str
    n: int


@dataclass(frozen=True)
class Predictor:
    """A fitted recipe with what its answers need.

    Attributes:
        catalog: the GPUs that can be asked for.
        recipe: the fitted recipe.
        intervals: per route, measured on pairs that the recipe was fitted without.
        training: what it was fitted on: profiles, pairs, workloads, GPUs, fingerprint.
        accuracy: error figures on the training data per protocol, one shuffle of the folds.
    """

    catalog: Catalog
    recipe: DefaultRecipe
    intervals: dict[Route, Interval]
    training: dict[str, Any]
    accuracy: dict[str, dict[str, float]]

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
        errors: dict[tuple[str, str], NDArray[np.float64]] = {}
        for protocol in ("P2", "P3", "P4"):
            try:
                predicted, _, routes = out_of_fold(pairs, protocol, recipe)
            except InputError:
                if protocol == "P2":
                    raise
                continue
            accuracy[protocol] = asdict(score(actual, predicted))
            for route in set(routes):
                errors[route, protocol] = np.log(predicted / actual)[np.array(routes) == route]
        training = {
            "profiles": len(profiles),
            "pairs": len(pairs),
            "workloads": len({pair.source.workload for pair in pairs}),
            "gpus": sorted({pair.source_gpu.name for pair in pairs}),
            "fingerprint": model_files.fingerprint([profile.to_json() for profile in profiles]),
        }
        return cls(catalog, recipe.fit(pairs), _intervals(pairs, errors), training, accuracy)

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
            ratios, routes = self.recipe.predict_ratio(others), self.recipe.routes(others)
            predictions += [
                _prediction(pair, float(ratio), self.intervals[route].half_width, self._why(pair, route))
                for pair, ratio, route in zip(others, ratios, routes, strict=True)
            ]
        return sorted(predictions, key=lambda prediction: prediction.ratio)

    def half_widths(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Half-width of each pair's 90 % interval in log seconds, shape (n,)."""
        return np.array([self.intervals[route].half_width for route in self.recipe.routes(pairs)], dtype=np.float64)

    @staticmethod
    def _same(profile: Profile, source: Gpu) -> Prediction:
        seconds = profile.epoch_s
        return Prediction(source.name, 1.0, seconds, seconds, seconds, "the profile was taken on this GPU")

    def _why(self, pair: Pair, route: Route) -> str:
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

    def _evidence(self, route: Route) -> str:
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
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(f"the model in {str(folder)!r} lacks a part ({error}); train it anew") from error


def _intervals(pairs: Sequence[Pair], errors: dict[tuple[str, str], NDArray[np.float64]]) -> dict[Route, Interval]:
    """One interval per route from log errors by (route, protocol): the protocol nearest to how the route is used, if it ran."""
    log_ratio = np.log(actual_ratio(pairs))
    bare = [replace(pair, source=replace(pair.source, metrics={}, feature_set="none")) for pair in pairs]
    # The prior learns nothing, so its errors on the training pairs are as good as any.
    prior = Interval(conformal_quantile(prior_log_ratio(pairs) - log_ratio), "prior", len(pairs))
    specifications = Interval(conformal_quantile(prior_log_ratio(bare) - log_ratio), "prior", len(pairs))

    def measured(route: Route, *protocols: str) -> Interval:
        for protocol in protocols:
            if (found := errors.get((route, protocol))) is not None:
                return Interval(conformal_quantile(found), protocol, len(found))
        return prior

    return {
        "ensemble": measured("ensemble", "P3", "P2"),
        "residual": measured("residual", "P4"),
        "prior": prior,
        "specifications": specifications,
    }


def _prediction(pair: Pair, ratio: float, half_width: float, why: str) -> Prediction:
    if pair.source.epoch_s is None:
        return Prediction(pair.target_gpu.name, ratio, None, None, None, why)
    seconds = pair.source.epoch_s * ratio
    factor = float(np.exp(half_width))
    return Prediction(pair.target_gpu.name, ratio, seconds, seconds / factor, seconds * factor, why)
