"""Accuracy of a recipe: by a protocol on one data set, or fitted on one and tested on another."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from .answers import Answers
from .errors import InputError
from .gpus import Catalog
from .intervals import Interval, half_widths
from .pairs import Pair, make_pairs, source_seconds, target_seconds
from .predictor import Predictor
from .profile import Profile
from .protocols import out_of_fold
from .recipes import RECIPES, DefaultRecipe, PaperRecipe, Recipe
from .scoring import LEVEL, Scores, score

_SHUFFLED = ("P1", "P2")


@dataclass(frozen=True)
class Evaluation:
    """Error figures, each the mean over ``seeds``; see ``Scores`` for their units.

    Attributes:
        recipe: name of the recipe, or its class where hyper-parameters were given.
        protocol: which pairs trained and which were tested; ``None`` where two files said so.
        by: per source GPU ``mape`` and ``n``.
        spread: smallest and largest MAPE over the seeds.
        interval_coverage: share of true values inside the 90 % interval, ``None`` for recipes that give none.
        interval_half_width: percent by which the interval's upper end exceeds the prediction, median over rows.
        settings: hyper-parameters, seeds and counts of the run.
    """

    recipe: str
    protocol: str | None
    mape: float
    median_ape: float
    rmse: float
    r2: float
    n: int
    coverage: float
    by: dict[str, dict[str, float]]
    spread: tuple[float, float]
    interval_coverage: float | None
    interval_half_width: float | None
    settings: dict[str, Any] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON values; a figure that no answered row gave is null."""
        values: dict[str, Any] = _without_nan(asdict(self))
        return values


def evaluate(
    profiles: Sequence[Profile],
    catalog: Catalog,
    *,
    protocol: str = "P2",
    recipe: str | Recipe = "default",
    seeds: Sequence[int] | None = None,
    progress: Callable[[int, int], object] = lambda done, fits: None,
) -> Evaluation:
    """Measure a recipe by one protocol (:data:`~epochcast.regressor.protocols.PROTOCOLS`).

    The 90 % interval is calibrated fold by fold: a pair's interval rests on the errors of the same route in all other folds.

    Args:
        profiles: measured training data.
        catalog: the GPUs.
        protocol: P2, P1, P3 or P4.
        recipe: a name of :data:`~epochcast.regressor.recipes.RECIPES`, or an unfitted recipe of other hyper-parameters.
        seeds: shuffles of the folds of P1 and P2; 0 to 4 unless given, 0 alone for recipes that take minutes.
        progress: called with (fits done, fits in all) before each fit.

    Raises:
        InputError: unknown recipe or protocol, or data too few for it.
    """
    name, unfitted = _recipe(recipe)
    pairs = make_pairs(profiles, catalog)
    if protocol not in _SHUFFLED:
        seeds = (0,)
    elif seeds is None:
        seeds = (0,) if isinstance(unfitted, PaperRecipe) else range(5)
    actual = target_seconds(pairs)

    def of_seed(number: int) -> Callable[[int, int], object]:
        return lambda done, folds: progress(number * folds + done, len(seeds) * folds)

    runs = [out_of_fold(pairs, protocol, unfitted, seed, of_seed(number)) for number, seed in enumerate(seeds)]
    widths = [_fold_wise(actual, *run) for run in runs]
    return _summary(
        name,
        protocol,
        pairs,
        [run[0] for run in runs],
        widths,
        {
            "parameters": unfitted.get_params(),
            "seeds": list(seeds),
            "profiles": len(profiles),
            "pairs": len(pairs),
        },
    )


def evaluate_split(
    train: Sequence[Profile], test: Sequence[Profile], catalog: Catalog, *, recipe: str | Recipe = "default"
) -> Evaluation:
    """Fit a recipe on ``train`` alone and measure it on the pairs within ``test``; intervals are those the predictor gives.

    Raises:
        InputError: unknown recipe, or no workload of ``test`` ran on two GPUs.
    """
    name, unfitted = _recipe(recipe)
    pairs = make_pairs(test, catalog)
    if isinstance(unfitted, DefaultRecipe):
        predictor = Predictor.fit(train, catalog, recipe=unfitted)
        answers = predictor.recipe.answer(pairs)
        predicted = source_seconds(pairs) * np.exp(answers.log_ratio)
        half_width = half_widths(predictor.intervals, answers)
    else:
        predicted, half_width = clone(unfitted).fit(make_pairs(train, catalog)).predict(pairs), None
    shared = {profile.workload for profile in train} & {profile.workload for profile in test}
    return _summary(
        name,
        None,
        pairs,
        [predicted],
        [half_width],
        {
            "parameters": unfitted.get_params(),
            "train_profiles": len(train),
            "test_profiles": len(test),
            "pairs": len(pairs),
            "workloads_in_both": len(shared),
        },
    )


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _recipe(recipe: str | Recipe) -> tuple[str, Recipe]:
    """The name and the unfitted recipe."""
    if not isinstance(recipe, str):
        return type(recipe).__name__, recipe
    if recipe not in RECIPES:
        raise InputError(f"unknown recipe {recipe!r}; known are {', '.join(RECIPES)}")
    return recipe, RECIPES[recipe]()


def _fold_wise(
    actual: NDArray[np.float64], predicted: NDArray[np.float64], folds: NDArray[np.intp], answers: Answers | None
) -> NDArray[np.float64] | None:
    """Half-widths in log seconds, shape (n,), each from the errors of the same route in the other folds."""
    if answers is None:
        return None
    errors, route = np.log(predicted / actual), answers.routes
    widths = np.full(len(actual), np.nan)
    for fold in np.unique(folds):
        for name in np.unique(route):
            here = (folds == fold) & (route == name)
            others = np.flatnonzero((folds != fold) & (route == name))
            if here.any() and others.size:
                interval = Interval.of_errors(errors[others], answers[others], "other folds")
                widths[here] = interval.multiple * answers.scale[here]
    return widths


def _summary(
    recipe: str,
    protocol: str | None,
    pairs: Sequence[Pair],
    runs: list[NDArray[np.float64]],
    half_widths: list[NDArray[np.float64] | None],
    settings: dict[str, Any],
) -> Evaluation:
    actual = target_seconds(pairs)
    sources = np.array([pair.source_gpu.name for pair in pairs], dtype=object)
    scores = [score(actual, run) for run in runs]
    interval_coverage, interval_half_width = _interval_figures(actual, runs, half_widths)
    return Evaluation(
        recipe=recipe,
        protocol=protocol,
        **asdict(_mean(scores)),
        by={
            gpu: {"mape": mean.mape, "n": mean.n}
            for gpu in sorted(set(sources))
            for mean in [_mean([score(actual[sources == gpu], run[sources == gpu]) for run in runs])]
        },
        spread=(min(one.mape for one in scores), max(one.mape for one in scores)),
        interval_coverage=interval_coverage,
        interval_half_width=interval_half_width,
        settings=settings | {"interval_level": LEVEL},
    )


def _interval_figures(
    actual: NDArray[np.float64], runs: list[NDArray[np.float64]], half_widths: list[NDArray[np.float64] | None]
) -> tuple[float | None, float | None]:
    """Share of true values inside, of the rows with an interval, and median half-width in percent; mean over the runs."""
    with_interval = [(run, width) for run, width in zip(runs, half_widths, strict=True) if width is not None]
    if not with_interval:
        return None, None
    coverage = [np.mean((np.abs(np.log(run / actual)) <= width)[np.isfinite(width)]) for run, width in with_interval]
    half_width = [100 * np.expm1(np.nanmedian(width)) for _, width in with_interval]
    return float(np.mean(coverage)), float(np.mean(half_width))


def _mean(scores: list[Scores]) -> Scores:
    """Mean of each figure over the seeds."""
    columns = {name: [getattr(one, name) for one in scores] for name in Scores.__dataclass_fields__}
    means = {name: float(np.mean(values)) for name, values in columns.items() if name != "n"}
    return Scores(**means, n=scores[0].n)
