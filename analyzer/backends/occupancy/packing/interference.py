"""Rules that predict how much a pair slows down, and how well they tell pairs of jobs that they never saw.

A rule is fitted on the views of pairs (:class:`.gavel_pairs.GavelPairs`) and predicts the logarithm of the slowdown. What is
known of a job that was never co-located with others is its throughput alone, the name of its model, and - one measurement
more - its slowdown beside a second copy of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ....errors import InputError
from .job import Job
from .slowdown import Slowdown

Rule = Callable[[pd.DataFrame, pd.DataFrame, Mapping[str, float]], NDArray[np.float64]]
"""Views to fit on, views to predict, slowdown of each type beside itself -> logarithm of the slowdown, shape (n,)."""

PROTOCOLS = {"pair": None, "types": ("job", "other"), "models": ("model", "other_model")}
"""What is left out of the fit with a pair: the pair, all pairs of either type, all pairs of either model."""

_TIME_SLICING = float(np.log(2.0))
_PENALTIES = np.logspace(-2, 3, 11)  # of ridge regression, from none to all; cross-validation chooses


def mean(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """The geometric mean of all slowdowns."""
    return np.full(len(views), np.log(fit["slowdown"]).mean())


def time_slicing(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """Two jobs take turns: each takes twice as long."""
    return np.full(len(views), _TIME_SLICING)


def additive(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """How much a type suffers plus how much the other makes suffer; the mean for a type that is not in the fit."""
    types = sorted({*fit["job"], *fit["other"]})
    columns = [(side, one) for side in ("job", "other") for one in types]
    return _ridge(_is(fit, columns), np.log(fit["slowdown"]), _is(views, columns))


def step_rates(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """Both throughputs alone, as logarithms with squares and product: who has short steps waits longer for its turn."""
    return _ridge(_squares(_rates(fit)), np.log(fit["slowdown"]), _squares(_rates(views)))


def model(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """As :func:`step_rates`, and which model either is; one that is not in the fit stands for none."""
    models = sorted({*fit["model"], *fit["other_model"]})
    columns = [(side, one) for side in ("model", "other_model") for one in models]
    features = [np.hstack([_squares(_rates(one)), _is(one, columns)]) for one in (fit, views)]
    return _ridge(features[0], np.log(fit["slowdown"]), features[1])


def self_pair(fit: pd.DataFrame, views: pd.DataFrame, beside_itself: Mapping[str, float]) -> NDArray[np.float64]:
    """Throughputs alone and the slowdowns of both beside themselves, as logarithms, in a straight line.

    How far two copies stay below a slowdown of two says how much of the GPU a type leaves to others. A type whose two copies do
    not fit the memory is taken to leave nothing.
    """
    known = {name: np.log(value) for name, value in beside_itself.items()}
    features = [
        np.hstack([_rates(one), np.array([[known.get(name, _TIME_SLICING) for name in one[side]] for side in _SIDES]).T])
        for one in (fit, views)
    ]
    return _ridge(features[0], np.log(fit["slowdown"]), features[1])


RULES: dict[str, Rule] = {
    "mean": mean,
    "time slicing": time_slicing,
    "additive": additive,
    "step rates": step_rates,
    "model": model,
    "self-pair": self_pair,
}

_SIDES = ("job", "other")


def _rates(views: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(np.log(views[["alone", "other_alone"]]), dtype=float)


def _squares(features: NDArray[np.float64]) -> NDArray[np.float64]:
    products = [features[:, i] * features[:, j] for i, j in combinations_with_replacement(range(features.shape[1]), 2)]
    return np.column_stack([features, *products])


def _is(views: pd.DataFrame, columns: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    return np.column_stack([(views[side] == name).to_numpy(dtype=float) for side, name in columns])


def _ridge(features: NDArray[np.float64], target: pd.Series[float], asked: NDArray[np.float64]) -> NDArray[np.float64]:
    fitted = make_pipeline(StandardScaler(), RidgeCV(_PENALTIES)).fit(features, target.to_numpy(dtype=float))
    return np.asarray(fitted.predict(asked), dtype=float)


def beside_itself(views: pd.DataFrame) -> dict[str, float]:
    """Slowdown of each type beside a second copy of itself, where that ran."""
    own = views[views["job"] == views["other"]]
    return dict(zip(own["job"], own["slowdown"].astype(float), strict=True))


def left_out(views: pd.DataFrame, rule: str, protocol: str) -> NDArray[np.float64]:
    """Slowdown of each view as the rule says that was fitted without it and its like; at least 1, shape (n,).

    Raises:
        InputError: the rule or protocol is unknown, or nothing is left to fit on.
    """
    if rule not in RULES or protocol not in PROTOCOLS:
        raise InputError(f"no rule {rule!r} or protocol {protocol!r}; there are {', '.join(RULES)} and {', '.join(PROTOCOLS)}")
    own = beside_itself(views)
    predicted = np.full(len(views), np.nan)
    for fit, test in _folds(views, protocol):
        if not fit.any():
            raise InputError(f"no pair is left to fit on without {views['job'][test].iloc[0]}; give pairs of more types")
        predicted[test] = RULES[rule](views[fit], views[test], own)
    return np.asarray(np.maximum(1.0, np.exp(predicted)))


def _folds(views: pd.DataFrame, protocol: str) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Views to fit on and views to predict: those of a pair, or of two types or models, in both orders."""
    columns = PROTOCOLS[protocol]
    one, two = (views[column].to_numpy() for column in columns or _SIDES)
    for a, b in sorted({(min(a, b), max(a, b)) for a, b in zip(one, two, strict=True)}):
        test = ((one == a) & (two == b)) | ((one == b) & (two == a))
        fit = ~test if columns is None else ~(np.isin(one, [a, b]) | np.isin(two, [a, b]))
        yield fit, test


@dataclass(frozen=True)
class Score:
    """How well a rule tells pairs of two different types.

    Attributes:
        n: views, two for each pair.
        mape, median_ape: error of the slowdown, per cent.
        rmse: error of the throughput relative to alone, a ratio.
        gains: share of pairs that together get more done than either alone (throughputs relative to alone above 1).
        decided: share of pairs for which the rule says so rightly.
        chosen: mean throughput of the pairs that the rule would co-locate; NaN if it would none.
        chosen_pairs: how many these are.
    """

    n: int
    mape: float
    median_ape: float
    rmse: float
    gains: float
    decided: float
    chosen: float
    chosen_pairs: int


def score(views: pd.DataFrame, predicted: NDArray[np.float64]) -> Score:
    """Pairs of a type with itself do not count: one rule is told those."""
    different = (views["job"] != views["other"]).to_numpy()
    measured = views["slowdown"].to_numpy(dtype=float)[different]
    guess = predicted[different]
    error = np.abs(guess / measured - 1) * 100
    names = np.sort(views.loc[different, list(_SIDES)].to_numpy(dtype=str), axis=1)
    rates = pd.DataFrame({"one": names[:, 0], "two": names[:, 1], "measured": 1 / measured, "guess": 1 / guess})
    totals = rates.groupby(["one", "two"]).sum()
    gains, chosen = (totals["measured"] > 1), (totals["guess"] > 1)
    return Score(
        n=len(measured),
        mape=float(error.mean()),
        median_ape=float(np.median(error)),
        rmse=float(np.sqrt(((1 / guess - 1 / measured) ** 2).mean())),
        gains=float(gains.mean()),
        decided=float((gains == chosen).mean()),
        chosen=float(totals["measured"][chosen].mean()),
        chosen_pairs=int(chosen.sum()),
    )


def pair_slowdown(views: pd.DataFrame, slowdown: NDArray[np.float64]) -> Slowdown:
    """Slowdowns of pairs as a curve for the simulation; pairs that are not among the views, and any three jobs, cannot run."""
    known = dict(zip(zip(views["job"], views["other"], strict=True), slowdown.tolist(), strict=True))

    def curve(jobs: Sequence[Job]) -> Sequence[float]:
        if len(jobs) < 2:
            return [1.0] * len(jobs)
        if len(jobs) > 2:
            return [float("inf")] * len(jobs)
        one, two = (job.kind for job in jobs)
        return [known.get((one, two), float("inf")), known.get((two, one), float("inf"))]

    return curve
