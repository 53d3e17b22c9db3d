"""Why this ratio: exact Shapley values of the metrics that an answer rests on (Lundberg and Lee 2017, equation 4)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import factorial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.derived import statistics_of
from epochcast.regressor.pairs import Pair
from epochcast.regressor.predictor import LatencyPredictor
from epochcast.regressor.profile import RATIOS, Profile
from epochcast.regressor.typical import Statistics, typical_metrics

DATA_SHEETS = "data sheets"
"""Name of the effect that is there before anything of the job is known."""

REST = "waits for checkpoints, and the order of the GPUs"
"""Name of what comes after the recipe: see :class:`~epochcast.regressor.Profile` and :mod:`~epochcast.regressor.order`."""

_NOTHING = 1e-9  # rounding

# 256 answers take some 10 ms; a DCGM profile has 16 metrics, and 65 536 would take seconds.
_MOST_PLAYERS = 8

_UNITS = {"power": "W", "power_average": "W", "temperature": "°C"}


@dataclass(frozen=True)
class Effect:
    """One part of a predicted ratio.

    Attributes:
        name: a metric of the profile, :data:`DATA_SHEETS`, or how many other metrics together.
        value, typical: mean of the metric in this profile and in a typical job on the same GPU; ``None`` where it is no metric.
        factor: what it multiplies the ratio by; the product over all effects is the ratio.
        unit: base unit of ``value`` and ``typical``.
    """

    name: str
    value: float | None
    typical: float | None
    factor: float
    unit: str


class _Answering(Protocol):
    def answer(self, pairs: Sequence[Pair]) -> Answers: ...


def explain(predictor: LatencyPredictor, profile: Profile, target: str) -> list[Effect]:
    """Split the ratio on ``target`` into factors, the one furthest from 1 first; none where source and target are the same.

    The data sheets have the ratio of a typical job of the source GPU; each metric has what it adds to that by being as it is in
    this profile, averaged over the orders in which the typical values can be replaced. Of more than eight metrics, the seven
    that matter most alone are single players, and the others are one player.

    Args:
        predictor: the fitted model.
        profile: one job on one GPU.
        target: any name of the target GPU.

    Raises:
        InputError: the profile's GPU or the target is unknown or ambiguous.
    """
    prediction = predictor.predict(profile, [target])[0]
    pair = Pair(profile, predictor.catalog.resolve(profile.gpu), predictor.catalog[prediction.gpu])
    if pair.source_gpu == pair.target_gpu:
        return []
    usual = typical_metrics(predictor.typical, pair.source_gpu, predictor.catalog)
    parts = effects(predictor, pair, prediction.features, usual)
    rest = prediction.ratio / float(np.prod([part.factor for part in parts]))
    if abs(np.log(rest)) > _NOTHING:
        parts.append(Effect(REST, None, None, rest, ""))
    return _largest_first(parts)


def effects(recipe: _Answering, pair: Pair, metrics: Sequence[str], typical: Mapping[str, Statistics]) -> list[Effect]:
    """Split one answer of a recipe; a metric of which nothing typical is known stays as it is and gets no effect."""

    def log_ratios(own: Iterable[Iterable[str]]) -> NDArray[np.float64]:
        """Answers where only these metrics are the profile's own and the others typical."""
        usual = [{name: typical[name] for name in names if name not in kept} for kept in map(set, own)]
        jobs = [replace(pair.source, metrics={**pair.source.metrics, **swapped}) for swapped in usual]
        return recipe.answer([replace(pair, source=job) for job in jobs]).log_ratio

    names = [name for name in metrics if name in typical]
    players: list[tuple[str, ...]] = [(name,) for name in names]
    if len(players) > _MOST_PLAYERS:
        none, *alone = log_ratios([(), *players]).tolist()
        largest = np.argsort([-abs(value - none) for value in alone], kind="stable").tolist()
        singles, rest = largest[: _MOST_PLAYERS - 1], largest[_MOST_PLAYERS - 1 :]
        players = [*((names[player],) for player in singles), tuple(names[player] for player in rest)]
    values = log_ratios(
        chain.from_iterable(player for bit, player in enumerate(players) if chosen >> bit & 1)
        for chosen in range(2 ** len(players))
    )
    factors = np.exp([values[0], *shapley_values(values)]).tolist()
    parts = [Effect(DATA_SHEETS, None, None, factors[0], "")]
    for player, factor in zip(players, factors[1:], strict=True):
        if len(player) > 1:
            parts.append(Effect(f"{len(player)} other metrics", None, None, factor, ""))
        else:
            (name,) = player
            own = statistics_of(pair.source, name)
            value = None if own is None else own["mean"]
            parts.append(Effect(name, value, typical[name]["mean"], factor, _unit(name)))
    return _largest_first(parts)


def _largest_first(parts: Iterable[Effect]) -> list[Effect]:
    return sorted(parts, key=lambda effect: -abs(np.log(effect.factor)))


def shapley_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shapley value of each of n players, shape (2^n,) -> (n,); ``values[s]`` is what the players at the set bits of s make."""
    n = len(values).bit_length() - 1
    shares = np.zeros(n)
    for player in range(n):
        others = [other for other in range(n) if other != player]
        for size in range(n):
            without = np.array([sum(1 << other for other in some) for some in combinations(others, size)])
            weight = factorial(size) * factorial(n - size - 1) / factorial(n)
            shares[player] += weight * (values[without | 1 << player] - values[without]).sum()
    return shares


def _unit(metric: str) -> str:
    if metric in RATIOS:
        return "ratio"
    if metric.endswith("_clock"):
        return "Hz"
    return _UNITS.get(metric, "bytes/s" if metric.endswith(("_tx", "_rx")) else "bytes")
