"""Which pairs train and which are tested: the protocols that accuracy is measured by (design: "Error figures", black box)."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold

from epochcast.regressor.errors import InputError
from epochcast.regressor.job_types import network_family
from epochcast.regressor.pairs import Pair, at, gpu_names
from epochcast.regressor.recipes import Recipe

SHUFFLED = ("P1", "P2")

PROTOCOLS: dict[str, str] = {
    "P2": "new workload: 5 folds grouped by workload",
    "P1": "random rows: leaky, because the same workload is on both sides",
    "P3": "new architecture: leave one model out",
    "P4": "new GPU: leave one GPU out as source and target, test on pairs into it",
}

# Of P1 and P2, as in ../shared/research/regressor.md, 1.
_FOLDS = 5
# Of P3: where every job is a model of its own, some of them leave together, or a training would take days. The data of the
# shipped model have 51 groups. By choice.
_MOST_FOLDS = 60
Rows = NDArray[np.intp]


def splits(pairs: Sequence[Pair], protocol: str, seed: int = 0, families: bool = False) -> Iterator[tuple[Rows, Rows]]:
    """Yield (training rows, test rows) per fold.

    Args:
        pairs: measured pairs.
        protocol: a name of :data:`PROTOCOLS`.
        seed: shuffles the folds of P1 and P2; the others have only one order.
        families: of P3: equal networks of all origins leave together (:func:`~epochcast.regressor.job_types.network_family`).

    Raises:
        InputError: the protocol is unknown, or the pairs are too few or too alike for it.
    """
    if protocol in SHUFFLED:
        workloads = [pair.source.workload for pair in pairs]
        if len(set(workloads)) < _FOLDS:
            raise InputError(
                f"{len(set(workloads))} workloads of the data ran on two GPUs; "
                f"protocol {protocol}, which training also uses, needs {_FOLDS}"
            )
        if protocol == "P1":
            yield from KFold(_FOLDS, shuffle=True, random_state=seed).split(workloads)
        else:
            yield from GroupKFold(_FOLDS, shuffle=True, random_state=seed).split(workloads, groups=workloads)
    elif protocol == "P3":
        groups = np.array([pair.source.group or "" for pair in pairs])
        if "" in groups or len(set(groups)) < 2:
            raise InputError(
                f"protocol {protocol} needs a group (model) in every profile, and two or more; "
                f"there are {sorted(set(groups.tolist()))}"
            )
        if families:
            groups = np.array([network_family(group) for group in groups])
        if len(set(groups)) > _MOST_FOLDS:
            yield from GroupKFold(_MOST_FOLDS).split(groups, groups=groups)
            return
        for group in sorted(set(groups)):
            yield np.flatnonzero(groups != group), np.flatnonzero(groups == group)
    elif protocol == "P4":
        sources, targets = gpu_names(pairs)
        for gpu in np.unique(targets).tolist():
            others = (sources != gpu) & (targets != gpu)
            if not others.any():
                raise InputError(f"protocol P4 needs pairs among other GPUs without {gpu}; give data of at least 3 GPUs")
            yield np.flatnonzero(others), np.flatnonzero(targets == gpu)
    else:
        raise InputError(f"unknown protocol {protocol!r}; known are {', '.join(PROTOCOLS)}")


def fitted_without(
    pairs: Sequence[Pair],
    protocol: str,
    unfitted: Recipe,
    seed: int = 0,
    progress: Callable[[int, int], object] = lambda done, folds: None,
    families: bool = False,
) -> Iterator[tuple[Recipe, Rows]]:
    """Yield for each fold of :func:`splits` a clone of the recipe that was fitted without it, and the fold's rows.

    ``progress`` is called with (folds done, folds) before each; a slow recipe takes a minute for one.
    """
    folds = list(splits(pairs, protocol, seed, families))
    for done, (train, test) in enumerate(folds):
        progress(done, len(folds))
        yield clone(unfitted).fit(at(pairs, train)), test
