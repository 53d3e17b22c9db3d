"""Which pairs train and which are tested: the protocols that accuracy is measured by (design: "Error figures", black box)."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from .answers import Answers
from .errors import InputError
from .pairs import Pair, source_seconds
from .recipes import DefaultRecipe, Recipe

PROTOCOLS: dict[str, str] = {
    "P2": "new workload: 5 folds grouped by workload",
    "P1": "random rows: leaky, the same workload stands on both sides",
    "P3": "new architecture: leave one model out",
    "P4": "new GPU: leave one GPU out as source and target, test on pairs into it",
}

_FOLDS = 5
Rows = NDArray[np.intp]


def splits(pairs: Sequence[Pair], protocol: str, seed: int = 0) -> Iterator[tuple[Rows, Rows]]:
    """Yield (training rows, test rows) per fold; ``seed`` shuffles the folds of P1 and P2, P3 and P4 have only one order.

    Raises:
        InputError: the protocol is unknown, or the pairs are too few or too alike for it.
    """
    if protocol in ("P1", "P2"):
        workloads = [pair.source.workload for pair in pairs]
        if len(set(workloads)) < _FOLDS:
            raise InputError(f"protocol {protocol} needs {_FOLDS} workloads seen on two GPUs, not {len(set(workloads))}")
        if protocol == "P1":
            yield from KFold(_FOLDS, shuffle=True, random_state=seed).split(workloads)
        else:
            yield from GroupKFold(_FOLDS, shuffle=True, random_state=seed).split(workloads, groups=workloads)
    elif protocol == "P3":
        groups = np.array([pair.source.group or "" for pair in pairs])
        if "" in groups or len(set(groups)) < 2:
            raise InputError(
                f"protocol P3 needs a group (model) in every profile, and two or more; there are {sorted(set(groups))}"
            )
        for group in sorted(set(groups)):
            yield np.flatnonzero(groups != group), np.flatnonzero(groups == group)
    elif protocol == "P4":
        sources = np.array([pair.source_gpu.name for pair in pairs])
        targets = np.array([pair.target_gpu.name for pair in pairs])
        for gpu in np.unique(targets).tolist():
            train, test = np.flatnonzero((sources != gpu) & (targets != gpu)), np.flatnonzero(targets == gpu)
            if not train.size:
                raise InputError(f"protocol P4 needs pairs among other GPUs without {gpu}; give data of at least 3 GPUs")
            yield train, test
    else:
        raise InputError(f"unknown protocol {protocol!r}; known are {', '.join(PROTOCOLS)}")


def out_of_fold(
    pairs: Sequence[Pair],
    protocol: str,
    unfitted: Recipe,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, folds: None,
) -> tuple[NDArray[np.float64], NDArray[np.intp], Answers | None]:
    """Predict every test pair by a clone of the recipe that was fitted without its fold.

    ``progress`` is called with (folds done, folds) before each: a slow recipe takes a minute for one.

    Returns:
        Predicted seconds, NaN where the recipe has no answer; the fold of each pair; the answers of a recipe that knows its own
        uncertainty. All of shape (n,): every protocol tests every pair exactly once.
    """
    seconds = np.full(len(pairs), np.nan)
    folds = np.full(len(pairs), -1, dtype=np.intp)
    answers: list[Answers] = []
    rows = list(splits(pairs, protocol, seed))
    for fold, (train, test) in enumerate(rows):
        progress(fold, len(rows))
        recipe = clone(unfitted).fit([pairs[row] for row in train])
        asked = [pairs[row] for row in test]
        folds[test] = fold
        if isinstance(recipe, DefaultRecipe):
            answers.append(recipe.answer(asked))
            seconds[test] = source_seconds(asked) * np.exp(answers[-1].log_ratio)
        else:
            seconds[test] = recipe.predict(asked)
    if not answers:
        return seconds, folds, None
    in_order = np.argsort(np.concatenate([test for _, test in rows]))
    return seconds, folds, Answers.concatenate(answers)[in_order]
