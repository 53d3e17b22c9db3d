"""Predictions of a recipe for rows that it was not fitted on."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.pairs import Pair, at, source_seconds
from epochcast.regressor.profile import Profile
from epochcast.regressor.protocols import Rows, fitted_without
from epochcast.regressor.recipes import DefaultRecipe, Recipe


def out_of_fold(
    pairs: Sequence[Pair],
    protocol: str,
    unfitted: Recipe,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, folds: None,
    families: bool = False,
    stated: Callable[[Profile], Profile] = lambda profile: profile,
) -> tuple[NDArray[np.float64], NDArray[np.intp], Answers | None]:
    """Predict every test pair by a clone of the recipe that was fitted without its fold.

    Args:
        pairs, protocol, unfitted, seed, progress, families: see :func:`~epochcast.regressor.protocols.fitted_without`.
        stated: what a tested job says of itself; training knows all.

    Returns:
        Predicted seconds, NaN where the recipe has no answer; the fold of each pair, both of shape
        (n,); the answers of a recipe that knows its own uncertainty, one per pair. Every pair is tested exactly once.
    """
    seconds = np.full(len(pairs), np.nan)
    folds = np.empty(len(pairs), dtype=np.intp)
    answers: list[Answers] = []
    tested: list[Rows] = []
    for recipe, test in fitted_without(pairs, protocol, unfitted, seed, progress, families):
        held_out = [replace(pair, source=stated(pair.source)) for pair in at(pairs, test)]
        folds[test] = len(tested)
        tested.append(test)
        if isinstance(recipe, DefaultRecipe):  # it knows the uncertainty of its answers
            answers.append(recipe.answer(held_out))
            seconds[test] = source_seconds(held_out) * np.exp(answers[-1].log_ratio)
        else:
            seconds[test] = recipe.predict(held_out)
    if not answers:
        return seconds, folds, None
    return seconds, folds, Answers.concatenate(answers)[np.argsort(np.concatenate(tested))]
