"""Fitted on one data set, tested on another."""

from collections.abc import Sequence
from typing import cast

import numpy as np
from sklearn.base import clone

from ..gpus import Catalog
from ..intervals import half_widths
from ..pairs import make_pairs, source_seconds
from ..predictor import Predictor
from ..profile import Profile
from ..protocols import AnsweringRecipe
from ..recipes import DefaultRecipe, Recipe
from .by_protocol import named_recipe, workloads_on_one_gpu
from .result import Evaluation, Run, summary


def evaluate_split(
    train: Sequence[Profile], test: Sequence[Profile], catalog: Catalog, *, recipe: str | Recipe = "default"
) -> Evaluation:
    """Fit a recipe on ``train`` alone and measure it on the pairs within ``test``; intervals are those the predictor gives.

    Raises:
        InputError: unknown recipe, ``train`` is too little for it, or no workload of ``test`` ran on two GPUs.
    """
    name, unfitted = named_recipe(recipe)
    pairs = make_pairs(test, catalog)
    if isinstance(unfitted, AnsweringRecipe):
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
        "workloads_in_both": len(shared),
        "workloads_on_one_gpu": workloads_on_one_gpu(test, pairs),
    }
    return summary(name, None, pairs, [run], settings)
