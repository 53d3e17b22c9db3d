"""The figures of an evaluation, as means over its shuffles."""

import math
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from epochcast.regressor.pairs import Pair, at, gpu_names, source_seconds, target_seconds
from epochcast.regressor.scoring import LEVEL, absolute_percentage_errors, score
from lab.evaluate.latency.fastest_gpu import fastest_gpu
from lab.evaluate.latency.interval_scores import score_intervals


@dataclass(frozen=True)
class Evaluation:
    """Error figures, each the mean over the shuffles; a figure that no row gives is NaN.

    Attributes:
        recipe: name of the recipe, or its class where hyper-parameters were given.
        protocol: which pairs trained and which were tested; ``None`` where two files define them.
        mape, median_ape, p90_ape: mean, median and 90th percentile of the absolute errors in percent.
        rmse: seconds.
        r2: of seconds.
        n: answered pairs.
        coverage: share of the tested pairs that were answered.
        wrong_order: percent of the pairs more than 10 % apart that are predicted to be the other way round, or equal.
        bias: median log of predicted over measured seconds.
        mape_by_group: mean over groups of each one's MAPE; NaN where the profiles name none.
        by: ``source_gpu``, ``target_gpu``, ``source`` (the origin) and ``precision`` -> name -> ``mape``, ``median_ape``,
            ``n``, ``wrong_order``, ``inside`` and ``half_width``.
        into_new_gpus, others: the same of pairs into GPUs that training lacks, and of the others; ``None`` under a protocol.
        spread: smallest and largest MAPE over the shuffles.
        inside: share of true values inside the 90 % interval; NaN for recipes that give none, as the next three.
        half_width: percent by which the interval's upper end exceeds the prediction, median over pairs.
        interval_score: see :func:`~lab.evaluate.latency.interval_scores.interval_score`; smaller is better.
        constant_width_score: the same of intervals of one width, calibrated on the same folds; NaN where two files were given.
        fastest_right, fastest_regret, fastest_n: see :class:`~lab.evaluate.latency.fastest_gpu.FastestGpu`.
        settings: hyper-parameters, seeds and counts of the run.
    """

    recipe: str
    protocol: str | None
    mape: float
    median_ape: float
    p90_ape: float
    rmse: float
    r2: float
    n: int
    coverage: float
    wrong_order: float
    bias: float
    mape_by_group: float
    by: dict[str, dict[str, dict[str, float]]]
    into_new_gpus: dict[str, float] | None
    others: dict[str, float] | None
    spread: tuple[float, float]
    inside: float
    half_width: float
    interval_score: float
    constant_width_score: float
    fastest_right: float
    fastest_regret: float
    fastest_n: int
    settings: dict[str, Any] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values; a figure that no row gave is null."""
        values: dict[str, Any] = _without_nan(asdict(self))
        return values


@dataclass(frozen=True)
class ShuffleResult:
    """What one shuffle gave for the tested pairs, arrays of shape (n,).

    Attributes:
        seconds: predicted; NaN where the recipe has no answer.
        half_width: of the 90 % interval in log seconds, NaN where there is none.
        constant_width: the same if every answer were equally sure.
    """

    seconds: NDArray[np.float64]
    half_width: NDArray[np.float64]
    constant_width: NDArray[np.float64]

    @classmethod
    def without_intervals(cls, seconds: NDArray[np.float64]) -> "ShuffleResult":
        """Return what a recipe gives that does not know how sure it is."""
        none = np.full(len(seconds), np.nan)
        return cls(seconds, none, none)


def summary(
    recipe: str,
    protocol: str | None,
    pairs: Sequence[Pair],
    runs: Sequence[ShuffleResult],
    settings: dict[str, Any],
    known: Collection[str] | None = None,
) -> Evaluation:
    """Compare every run with the measured seconds of the pairs, and take the mean of each figure.

    ``known`` are the GPUs in training, where that is another file.
    """
    actual, (sources, targets) = target_seconds(pairs), gpu_names(pairs)
    everything = np.ones(len(pairs), dtype=bool)
    overall = [_figures(pairs, actual, run) for run in runs]
    mape = [figures["mape"] for figures in overall]
    new = None if known is None else np.array([pair.target_gpu.name not in known for pair in pairs])
    return Evaluation(
        recipe=recipe,
        protocol=protocol,
        **_mean(overall),
        **_mean([_interval_figures(actual, run, everything) for run in runs]),
        by={
            "source_gpu": _by(sources.tolist(), pairs, runs),
            "target_gpu": _by(targets.tolist(), pairs, runs),
            "source": _by([pair.source.origin for pair in pairs], pairs, runs),
            "precision": _by([pair.source.precision for pair in pairs], pairs, runs),
        },
        into_new_gpus=None if new is None else _mean([_figures_of(new, pairs, run) for run in runs]),
        others=None if new is None else _mean([_figures_of(~new, pairs, run) for run in runs]),
        spread=(min(mape), max(mape)),
        settings=settings | {"interval_level": LEVEL},
    )


def _figures(pairs: Sequence[Pair], actual: NDArray[np.float64], run: ShuffleResult) -> dict[str, float]:
    errors = absolute_percentage_errors(actual, run.seconds)
    fastest = asdict(fastest_gpu(pairs, actual, run.seconds))
    return {
        **asdict(score(actual, run.seconds)),
        "p90_ape": float(np.percentile(errors, 90)) if errors.size else math.nan,
        "wrong_order": _wrong_order(pairs, run.seconds),
        "bias": float(np.nanmedian(_log_errors(actual, run))) if errors.size else math.nan,
        "mape_by_group": _mape_by_group(pairs, actual, run),
        **{f"fastest_{key}": value for key, value in fastest.items()},
        "constant_width_score": score_intervals(_log_errors(actual, run), run.constant_width).score,
    }


def _log_errors(actual: NDArray[np.float64], run: ShuffleResult) -> NDArray[np.float64]:
    """Log of predicted over measured; NaN where a model that knows no ratio answers a time below 0."""
    return np.log(np.where(run.seconds > 0, run.seconds, np.nan) / actual)


def _interval_figures(actual: NDArray[np.float64], run: ShuffleResult, rows: NDArray[np.bool_]) -> dict[str, float]:
    scores = score_intervals(_log_errors(actual, run)[rows], run.half_width[rows])
    return {"inside": scores.inside, "half_width": scores.half_width, "interval_score": scores.score}


# Closer, two GPUs are as good as equal: releases of the same benchmark differ by 4 % (../shared/data/cross_gpu). The bound by
# choice.
_APART = math.log(1.1)


def _wrong_order(pairs: Sequence[Pair], seconds: NDArray[np.float64]) -> float:
    """Percent of the answered pairs more than 10 % apart of which the slower GPU is not predicted to be slower."""
    source, target = source_seconds(pairs), target_seconds(pairs)
    apart = (np.abs(np.log(target / source)) > _APART) & np.isfinite(seconds)
    wrong = np.sign(target - source) != np.sign(seconds - source)
    return 100 * float(wrong[apart].mean()) if apart.any() else math.nan


def _mape_by_group(pairs: Sequence[Pair], actual: NDArray[np.float64], run: ShuffleResult) -> float:
    groups = np.array([pair.source.group or "" for pair in pairs])
    means = [score(actual[groups == group], run.seconds[groups == group]).mape for group in sorted(set(groups) - {""})]
    return float(np.mean(means)) if means else math.nan


def _by(names: Sequence[str | None], pairs: Sequence[Pair], runs: Sequence[ShuffleResult]) -> dict[str, dict[str, float]]:
    """Figures of the pairs with each name, in the order of the names; those without a name are left out."""
    held, each = np.array(names, dtype=object), sorted({name for name in names if name is not None})
    return {name: _mean([_figures_of(held == name, pairs, run) for run in runs]) for name in each}


def _figures_of(rows: NDArray[np.bool_], pairs: Sequence[Pair], run: ShuffleResult) -> dict[str, float]:
    """Figures of some rows, a mask of shape (n,)."""
    actual = target_seconds(pairs)
    scores = score(actual[rows], run.seconds[rows])
    intervals = _interval_figures(actual, run, rows)
    del intervals["interval_score"]
    wrong = _wrong_order(at(pairs, np.flatnonzero(rows)), run.seconds[rows])
    return {"mape": scores.mape, "median_ape": scores.median_ape, "n": scores.n, "wrong_order": wrong, **intervals}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Mean of each figure over the runs; counts stay whole numbers."""
    means = {name: float(np.mean([figures[name] for figures in runs])) for name in runs[0]}
    return {name: round(mean) if isinstance(runs[0][name], int) else mean for name, mean in means.items()}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    if isinstance(value, BaseEstimator):  # a part of a recipe, among its parameters
        return str(value)
    return None if isinstance(value, float) and math.isnan(value) else value
