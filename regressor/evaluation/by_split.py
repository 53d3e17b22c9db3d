"""Fitted on one data set, tested on another."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from sklearn.base import clone

from ..errors import InputError
from ..gpus import Catalog
from ..intervals import Interval, half_widths
from ..pairs import Pair, actual_ratio, make_pairs, source_seconds
from ..predictor import Predictor
from ..profile import Profile
from ..protocols import AnsweringRecipe, out_of_fold
from ..recipes import DefaultRecipe, Recipe, SpeedsRecipe
from .by_protocol import named_recipe, workloads_on_one_gpu
from .result import Evaluation, Run, summary


def evaluate_split(
    train: Sequence[Profile], test: Sequence[Profile], catalog: Catalog, *, recipe: str | Recipe = "default"
) -> Evaluation:
    """Fit a recipe on ``train`` alone and measure it on the pairs within ``test``; intervals are those the predictor gives.

    Where ``test`` has GPUs that ``train`` lacks, only those are targets, and the others are sources.

    Raises:
        InputError: unknown recipe, ``train`` is too little for it, or no workload of ``test`` ran on two GPUs.
    """
    name, unfitted = named_recipe(recipe)
    known = {catalog.resolve(profile.gpu).name for profile in train}
    pairs = make_pairs(test, catalog)
    into_new = [pair for pair in pairs if pair.target_gpu.name not in known and pair.source_gpu.name in known]
    pairs = into_new or pairs
    if isinstance(unfitted, SpeedsRecipe):
        learnt = make_pairs(train, catalog)
        answers = clone(unfitted).fit(learnt).answer(pairs)
        widths = half_widths(_intervals_of_speeds(learnt, unfitted), answers)
        run = Run(source_seconds(pairs) * np.exp(answers.log_ratio), widths, np.full(len(pairs), np.nan))
    elif isinstance(unfitted, AnsweringRecipe):
        predictor = Predictor.fit(train, catalog, recipe=cast(DefaultRecipe, unfitted))
        answers = predictor.answer(pairs)
        seconds = source_seconds(pairs) * np.exp(answers.log_ratio)
        run = Run(seconds, half_widths(predictor.reliability.intervals, answers), np.full(len(pairs), np.nan))
    else:
        run = Run.without_intervals(clone(unfitted).fit(make_pairs(train, catalog)).predict(pairs))
    shared = {profile.workload for profile in train} & {profile.workload for profile in test}
    settings = {
        "parameters": unfitted.get_params(),
        "train_profiles": len(train),
        "test_profiles": len(test),
        "pairs": len(pairs),
        "only_into": sorted({pair.target_gpu.name for pair in into_new}),
        "workloads_in_both": len(shared),
        "workloads_on_one_gpu": workloads_on_one_gpu(test, pairs),
    }
    return summary(name, None, pairs, [run], settings)


def _intervals_of_speeds(pairs: Sequence[Pair], unfitted: SpeedsRecipe) -> dict[str, Interval]:
    """By route, from jobs left out, and from GPUs left out where the data have three or more.

    A job that is known on both GPUs has the interval of a new one: too wide rather than too narrow.
    """
    intervals: dict[str, Interval] = {}
    for protocol, route in (("new-workload", "speeds"), ("new-gpu", "specifications")):
        try:
            _, _, answers = out_of_fold(pairs, protocol, unfitted)
        except InputError:
            if not intervals:
                raise
            answers = None
        if answers is not None:
            errors = answers.log_ratio - np.log(actual_ratio(pairs))
            intervals[route] = Interval.of_errors(errors, answers, protocol)
    return {"specifications": intervals["speeds"], "job": intervals["speeds"], **intervals}
