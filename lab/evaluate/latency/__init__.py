"""Accuracy of a recipe: by a protocol on one data set, or fitted on one and tested on another."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from epochcast.regressor.answers import Answers
from epochcast.regressor.errors import InputError
from epochcast.regressor.gpus import Catalog
from epochcast.regressor.intervals import half_widths
from epochcast.regressor.pairs import Pair, at, make_pairs, source_seconds, target_seconds
from epochcast.regressor.predictor import LatencyPredictor
from epochcast.regressor.profile import Profile
from epochcast.regressor.protocols import SHUFFLED
from epochcast.regressor.recipes import DefaultRecipe, Recipe
from epochcast.regressor.recipes.paper import RawSecondsRecipe
from epochcast.regressor.reliability import measure_reliability
from lab.evaluate.latency.interval_scores import constant_width, fold_wise
from lab.evaluate.latency.out_of_fold import out_of_fold
from lab.evaluate.latency.result import Evaluation, ShuffleResult, summary
from lab.evaluate.latency.stated import STATED
from lab.rivals.latency import RECIPES

__all__ = ["BASELINES", "Evaluation", "evaluate", "evaluate_model", "evaluate_split"]

BASELINES = (
    "prior",
    "pair-median",
    "same-latency",
    "flops-ratio",
    "bandwidth-ratio",
    "geometric-mean",
    "data-sheet-ridge",
)
"""Recipes that learn next to nothing: what any other is compared with."""

# Fits without workloads that are also tested. By choice.
_FOLDS = 5

Progress = Callable[[int, int], object]


def evaluate(
    profiles: Sequence[Profile],
    catalog: Catalog,
    *,
    protocol: str = "P2",
    recipe: str | Recipe = "default",
    seeds: Sequence[int] | None = None,
    families: bool = False,
    stated: str = "family",
    progress: Progress = lambda done, fits: None,
) -> Evaluation:
    """Measure a recipe by one protocol (:data:`~epochcast.regressor.protocols.PROTOCOLS`).

    The 90 % interval is calibrated fold by fold: a pair's interval rests on the errors of the same route in all other folds.

    Args:
        profiles: measured training data.
        catalog: the GPUs.
        protocol: P2, P1, P3 or P4.
        recipe: a name of :data:`~lab.rivals.latency.RECIPES`, or an unfitted recipe of other hyper-parameters.
        seeds: shuffles of the folds of P1 and P2; 0 to 4 unless given, 0 alone for the paper's models, which take minutes.
        families: equal networks of all origins leave together, of P3.
        stated: what a tested job says of itself, a name of :data:`STATED`.
        progress: called with (fits done, fits in all) before each fit.

    Raises:
        InputError: unknown recipe or protocol, or data too few for it.
    """
    name, unfitted = _named_recipe(recipe)
    pairs = make_pairs(profiles, catalog)
    if protocol not in SHUFFLED:
        seeds = (0,)
    elif seeds is None:
        seeds = (0,) if isinstance(unfitted, RawSecondsRecipe) else range(5)
    settings = {
        "parameters": unfitted.get_params(),
        "seeds": list(seeds),
        "profiles": len(profiles),
        "pairs": len(pairs),
        "workloads_on_one_gpu": _workloads_on_one_gpu(profiles, pairs),
        "stated": stated,
    }

    def of_seed(number: int) -> Progress:
        return lambda done, folds: progress(number * folds + done, len(seeds) * folds)

    runs = [
        _run(pairs, *out_of_fold(pairs, protocol, unfitted, seed, of_seed(number), families=families, stated=STATED[stated]))
        for number, seed in enumerate(seeds)
    ]
    return summary(name, protocol, pairs, runs, settings)


def evaluate_split(
    train: Sequence[Profile],
    test: Sequence[Profile],
    catalog: Catalog,
    *,
    recipe: str | Recipe = "default",
    stated: str = "family",
) -> Evaluation:
    """Fit a recipe on ``train`` alone and measure it on the pairs within ``test``; intervals are those the predictor gives.

    No job is known by name: a workload of both is answered by a fit without it, which leaves out a fifth of them at a time, as
    without all of them little may be left to learn from.

    Raises:
        InputError: unknown recipe, ``train`` is too little for it, or no workload of ``test`` ran on two GPUs.
    """
    name, unfitted = _named_recipe(recipe)
    pairs, learnt = make_pairs(test, catalog), make_pairs(train, catalog)
    shared = sorted({str(profile.workload) for profile in train} & {str(profile.workload) for profile in test})
    fold_of = {workload: 1 + number % _FOLDS for number, workload in enumerate(shared)}
    folds = np.array([fold_of.get(str(pair.source.workload), 0) for pair in pairs])
    intervals = measure_reliability(learnt, unfitted)[1] if isinstance(unfitted, DefaultRecipe) else {}
    run = ShuffleResult(*np.full((3, len(pairs)), np.nan))
    for fold in np.unique(folds).tolist():
        rest = [pair for pair in learnt if fold_of.get(str(pair.source.workload)) != fold]
        if not rest:
            raise InputError(f"{shared[0]!r} is the only workload to learn from, and tested too; give others to train on")
        fitted = clone(unfitted).fit(rest)
        rows = np.flatnonzero(folds == fold)
        asked = [replace(pair, source=STATED[stated](pair.source)) for pair in at(pairs, rows)]
        if isinstance(fitted, DefaultRecipe):
            answers = fitted.answer(asked)
            run.seconds[rows] = source_seconds(asked) * np.exp(answers.log_ratio)
            run.half_width[rows] = half_widths(intervals, answers)
        else:
            run.seconds[rows] = fitted.predict(asked)
    settings = {
        "parameters": unfitted.get_params(),
        "train_profiles": len(train),
        "test_profiles": len(test),
        "pairs": len(pairs),
        "workloads_in_both": len(shared),
        "workloads_on_one_gpu": _workloads_on_one_gpu(test, pairs),
    }
    return summary(name, None, pairs, [run], settings, known={catalog.resolve(profile.gpu).name for profile in train})


def evaluate_model(predictor: LatencyPredictor, test: Sequence[Profile], *, stated: str = "family") -> Evaluation:
    """Measure a fitted model on the pairs within ``test``, by the answers that a user gets.

    Raises:
        InputError: no workload of ``test`` ran on two GPUs.
    """
    pairs = make_pairs(test, predictor.catalog)
    sources = {id(pair.source): pair.source for pair in pairs}
    answers = {key: {one.gpu: one for one in predictor.predict(STATED[stated](source))} for key, source in sources.items()}
    given = [answers[id(pair.source)][pair.target_gpu.name] for pair in pairs]
    ratio, high = np.array([(one.ratio, one.ratio_high) for one in given]).T
    run = ShuffleResult(source_seconds(pairs) * ratio, np.log(high / ratio), np.full(len(pairs), np.nan))
    settings = {
        "parameters": predictor.recipe.get_params(),
        "train_profiles": predictor.training["profiles"],
        "test_profiles": len(test),
        "pairs": len(pairs),
        "workloads_on_one_gpu": _workloads_on_one_gpu(test, pairs),
    }
    return summary("default", None, pairs, [run], settings, known=predictor.training["gpus"])


def _named_recipe(recipe: str | Recipe) -> tuple[str, Recipe]:
    """Return the name and the unfitted recipe.

    Raises:
        InputError: no recipe has this name.
    """
    if not isinstance(recipe, str):
        return type(recipe).__name__, recipe
    if recipe not in RECIPES:
        raise InputError(f"unknown recipe {recipe!r}; known are {', '.join(RECIPES)}")
    return recipe, RECIPES[recipe]()


def _workloads_on_one_gpu(profiles: Sequence[Profile], pairs: Sequence[Pair]) -> int:
    """Count the workloads that make no pair."""
    return len({profile.workload for profile in profiles} - {pair.source.workload for pair in pairs})


def _run(
    pairs: Sequence[Pair], seconds: NDArray[np.float64], folds: NDArray[np.intp], answers: Answers | None
) -> ShuffleResult:
    """Draw the intervals of one pass over the folds."""
    if answers is None:
        return ShuffleResult.without_intervals(seconds)
    log_error = np.log(seconds / target_seconds(pairs))
    return ShuffleResult(seconds, fold_wise(log_error, folds, answers), constant_width(log_error, folds, answers))
