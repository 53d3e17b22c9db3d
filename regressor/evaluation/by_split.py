"""Fitted on one data set, tested on another."""

from collections.abc import Sequence

import numpy as np
from sklearn.base import clone

from ..gpus import Catalog
from ..intervals import half_widths
from ..pairs import make_pairs, source_seconds
from ..profile import Profile
from ..recipes import DefaultRecipe, Recipe
from ..reliability import Reliability
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
    learnt = make_pairs(train, catalog)
    fitted = clone(unfitted).fit(learnt)
    if isinstance(fitted, DefaultRecipe):
        answers = fitted.answer(pairs)
        widths = half_widths(Reliability.measure(learnt, fitted).intervals, answers)
        run = Run(source_seconds(pairs) * np.exp(answers.log_ratio), widths, np.full(len(pairs), np.nan))
    else:
        run = Run.without_intervals(fitted.predict(pairs))
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
