"""The figures of an evaluation, as means over its shuffles."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..pairs import Pair, target_seconds
from ..scoring import LEVEL, absolute_percentage_errors, score
from .fastest_gpu import fastest_gpu
from .interval_scores import score_intervals


@dataclass(frozen=True)
class Evaluation:
    """Error figures, each the mean over the shuffles; a figure that no row gives is NaN.

    Attributes:
        recipe: name of the recipe, or its class where hyper-parameters were given.
        protocol: which pairs trained and which were tested; ``None`` where two files said so.
        mape, median_ape, p90_ape: mean, median and 90th percentile of the absolute errors in percent.
        rmse: seconds.
        r2: of seconds.
        n: answered pairs.
        coverage: share of the tested pairs that were answered.
        by, by_target: per source and per target GPU ``mape``, ``median_ape``, ``n``, ``interval_coverage`` and
            ``interval_half_width``.
        spread: smallest and largest MAPE over the shuffles.
        interval_coverage: share of true values inside the 90 % interval; NaN for recipes that give none, as the next three.
        interval_half_width: percent by which the interval's upper end exceeds the prediction, median over pairs.
        interval_score: see :func:`~epochcast.regressor.evaluation.interval_scores.interval_score`; smaller is better.
        constant_width_score: the same of intervals of one width, calibrated on the same folds; NaN where two files were given.
        fastest_right, fastest_regret, fastest_n: see :class:`~epochcast.regressor.evaluation.fastest_gpu.FastestGpu`.
        random_anchors: MAPE of each draw with anchors at random, of protocol P4-anchors with a recipe that calibrates.
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
    by: dict[str, dict[str, float]]
    by_target: dict[str, dict[str, float]]
    spread: tuple[float, float]
    interval_coverage: float
    interval_half_width: float
    interval_score: float
    constant_width_score: float
    fastest_right: float
    fastest_regret: float
    fastest_n: int
    random_anchors: tuple[float, ...]
    settings: dict[str, Any] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values; a figure that no row gave is null."""
        values: dict[str, Any] = _without_nan(asdict(self))
        return values


@dataclass(frozen=True)
class Run:
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
    def without_intervals(cls, seconds: NDArray[np.float64]) -> "Run":
        """Return what a recipe gives that does not know how sure it is."""
        none = np.full(len(seconds), np.nan)
        return cls(seconds, none, none)


def summary(
    recipe: str,
    protocol: str | None,
    pairs: Sequence[Pair],
    runs: Sequence[Run],
    settings: dict[str, Any],
    random_anchors: Sequence[float] = (),
) -> Evaluation:
    """Compare every run with the measured seconds of the pairs, and take the mean of each figure."""
    actual = target_seconds(pairs)
    everything = np.ones(len(pairs), dtype=bool)
    overall = [_figures(pairs, actual, run) for run in runs]
    mape = [figures["mape"] for figures in overall]
    return Evaluation(
        recipe=recipe,
        protocol=protocol,
        **_mean(overall),
        **_mean([_interval_figures(actual, run, everything) for run in runs]),
        by=_by([pair.source_gpu.name for pair in pairs], actual, runs),
        by_target=_by([pair.target_gpu.name for pair in pairs], actual, runs),
        spread=(min(mape), max(mape)),
        random_anchors=tuple(random_anchors),
        settings=settings | {"interval_level": LEVEL},
    )


def _figures(pairs: Sequence[Pair], actual: NDArray[np.float64], run: Run) -> dict[str, float]:
    errors = absolute_percentage_errors(actual, run.seconds)
    fastest = asdict(fastest_gpu(pairs, actual, run.seconds))
    return {
        **asdict(score(actual, run.seconds)),
        "p90_ape": float(np.percentile(errors, 90)) if errors.size else math.nan,
        **{f"fastest_{key}": value for key, value in fastest.items()},
        "constant_width_score": score_intervals(_log_errors(actual, run), run.constant_width).score,
    }


def _log_errors(actual: NDArray[np.float64], run: Run) -> NDArray[np.float64]:
    """Log of predicted over measured; NaN where a model that knows no ratio answers a time below 0."""
    return np.log(np.where(run.seconds > 0, run.seconds, np.nan) / actual)


def _interval_figures(actual: NDArray[np.float64], run: Run, rows: NDArray[np.bool_]) -> dict[str, float]:
    scores = score_intervals(_log_errors(actual, run)[rows], run.half_width[rows])
    return {f"interval_{key}": value for key, value in asdict(scores).items()}


def _by(gpus: Sequence[str], actual: NDArray[np.float64], runs: Sequence[Run]) -> dict[str, dict[str, float]]:
    """Figures per GPU, in the order of the names."""

    def of(rows: NDArray[np.bool_], run: Run) -> dict[str, float]:
        scores = score(actual[rows], run.seconds[rows])
        intervals = _interval_figures(actual, run, rows)
        del intervals["interval_score"]
        return {"mape": scores.mape, "median_ape": scores.median_ape, "n": scores.n, **intervals}

    names = np.array(gpus, dtype=object)
    return {gpu: _mean([of(names == gpu, run) for run in runs]) for gpu in sorted(set(gpus))}


def _mean(runs: Sequence[dict[str, float]]) -> dict[str, Any]:
    """Mean of each figure over the runs; counts stay whole numbers."""
    means = {name: float(np.mean([figures[name] for figures in runs])) for name in runs[0]}
    return {name: round(mean) if isinstance(runs[0][name], int) else mean for name, mean in means.items()}


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
