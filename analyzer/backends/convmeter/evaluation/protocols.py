"""Which networks leave together; a network that is predicted, and its like, were never fitted on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import InputError

ARCHITECTURE_FOLDS = 12
_SEED = 0

Folds = NDArray[np.str_]
"""Label of the fold in which each row is predicted, shape (n,)."""


def leave_one_family_out(points: pd.DataFrame) -> Folds:
    """A fold per family."""
    return points["family"].to_numpy(dtype=np.str_)


def leave_one_model_out(points: pd.DataFrame) -> Folds:
    """A fold per network, whose blocks leave with it, as in section 4 of the paper; its like of other names stay."""
    return points["network"].to_numpy(dtype=np.str_)


def leave_architectures_out(points: pd.DataFrame) -> Folds:
    """Twelve folds of architectures at random, always the same: of one name, or with equally many weights and layers.

    So a network under a second name, or trained on other images, is not fitted on; a deeper one of the same design may be.
    """
    architecture = _architectures(points)
    count = int(architecture.max()) + 1
    shuffled = np.random.default_rng(_SEED).permutation(count)
    fold_of = np.empty(count, dtype=int)
    for fold, members in enumerate(np.array_split(shuffled, min(ARCHITECTURE_FOLDS, count))):
        fold_of[members] = fold
    return np.array([f"fold {fold + 1}" for fold in fold_of[architecture]], dtype=np.str_)


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame], Folds]] = {
    "family": leave_one_family_out,
    "architecture": leave_architectures_out,
    "model": leave_one_model_out,
}


def folds_of(points: pd.DataFrame, protocol: str) -> Folds:
    """Folds of points of one or several devices, by the name of the protocol.

    Raises:
        InputError: all points would leave together.
    """
    folds = PROTOCOLS[protocol](points)
    if len(set(folds.tolist())) < 2:
        told = {"family": "one family", "architecture": "one architecture", "model": "one network"}[protocol]
        raise InputError(f"all {len(points)} points are of {told} ({folds[0]}), so none is left to fit on; give more networks")
    return folds


def _architectures(points: pd.DataFrame) -> NDArray[np.int_]:
    """Number of each row's architecture from 0, shape (n,): joined by name, and by weights and layers of whole networks."""
    whole = points["block"] == ""
    names, number = np.unique(points["network"].to_numpy(dtype=np.str_), return_inverse=True)
    parent = list(range(len(names)))

    def root(member: int) -> int:
        while parent[member] != member:
            member = parent[member]
        return member

    first: dict[tuple[float, float], int] = {}
    sizes = zip(number[whole], points["weights"][whole], points["layers"][whole], strict=True)
    for member, weights, layers in sizes:
        other = first.setdefault((weights, layers), int(member))
        parent[root(int(member))] = root(other)
    roots = np.array([root(member) for member in range(len(names))])
    architectures: NDArray[np.int_] = np.unique(roots, return_inverse=True)[1][number]
    return architectures
