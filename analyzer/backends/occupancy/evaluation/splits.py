"""What is fitted on and what is tested, by protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....errors import InputError
from .paper_networks import CLIP_SEEN, CLIP_UNSEEN, SEEN, TRANSFORMER_SEEN, TRANSFORMERS_UNSEEN, UNSEEN

FEWEST_NETWORKS = 3
"""With two, one would be told from the other alone."""

SEEN_SHARE = 0.8
"""Of the seen networks' configurations that are fitted on (section V)."""

Rows = NDArray[np.bool_]


@dataclass(frozen=True)
class Split:
    """One fit.

    Attributes:
        train: rows that are fitted on, mask of shape (n,).
        tests: rows that are tested, masks of shape (n,) by the name of what they are; none is fitted on.
    """

    train: Rows
    tests: Mapping[str, Rows]


def leave_models_out(points: pd.DataFrame, folds: int | None, seed: int) -> list[Split]:
    """Each network leaves with all its configurations and is predicted by a fit on all others.

    Args:
        points: with ``network``.
        folds: leave so many groups of networks out instead, drawn at random: fewer fits of a slow predictor.
        seed: of the draw.

    Raises:
        InputError: there are fewer than three networks.
    """
    networks = points["network"].to_numpy(dtype=np.str_)
    names = np.unique(networks)
    if len(names) < FEWEST_NETWORKS:
        raise InputError(
            f"{len(points)} rows are of {len(names)} networks ({', '.join(names)}); leaving networks out takes "
            f"{FEWEST_NETWORKS} or more"
        )
    if folds is None or folds >= len(names):
        return [Split(networks != name, {str(name): networks == name}) for name in names]
    shuffled = np.random.default_rng(seed).permutation(names)
    tested = [np.isin(networks, group) for group in np.array_split(shuffled, folds)]
    return [Split(~own, {f"fold {number + 1}": own}) for number, own in enumerate(tested)]


def seen_and_unseen(points: pd.DataFrame, folds: int | None, seed: int) -> list[Split]:
    """Section V: 80 % of the seen networks' rows are fitted on; the rest of them, and the unseen networks, are tested.

    The seen rows lie between rows of the same network with a little smaller and larger batch: they are no test of new networks.
    """
    train = _some_of(points, SEEN.values(), seed)
    tests = {"seen": _of(points, SEEN.values()) & ~train, "unseen": _of(points, UNSEEN.values())}
    _check("section V", tests, SEEN.values(), UNSEEN.values())
    return [Split(train, tests)]


def transformers(points: pd.DataFrame, folds: int | None, seed: int) -> list[Split]:
    """Table V: fitted on ViT-T alone, tested on the other transformers."""
    own = _of(points, [TRANSFORMER_SEEN])
    tests = {name: rows for name in TRANSFORMERS_UNSEEN.values() if (rows := _of(points, [name])).any()}
    tested = _of(points, TRANSFORMERS_UNSEEN.values())
    _check("Table V", {"fitted on": own, "tested": tested}, [TRANSFORMER_SEEN], TRANSFORMERS_UNSEEN.values())
    return [Split(own, tests)]


def clip(points: pd.DataFrame, folds: int | None, seed: int) -> list[Split]:
    """Table IV: two CLIP networks seen, a third unseen; those of section V are fitted on too, as in :func:`seen_and_unseen`."""
    seen, unseen = [*SEEN.values(), *CLIP_SEEN.values()], list(CLIP_UNSEEN.values())
    train = _some_of(points, seen, seed)
    tests = {"seen": _of(points, CLIP_SEEN.values()) & ~train, "unseen": _of(points, unseen)}
    _check("Table IV", tests, CLIP_SEEN.values(), unseen)
    return [Split(train, tests)]


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame, int | None, int], list[Split]]] = {
    "model": leave_models_out,
    "paper": seen_and_unseen,
    "transformers": transformers,
    "clip": clip,
}
"""By name: points, folds (for ``model`` alone) and seed to fits; the first is the headline."""


_WANTED: Mapping[str, Iterable[str]] = {
    "paper": (*SEEN.values(), *UNSEEN.values()),
    "transformers": (TRANSFORMER_SEEN, *TRANSFORMERS_UNSEEN.values()),
    "clip": (*SEEN.values(), *CLIP_SEEN.values(), *CLIP_UNSEEN.values()),
}


def missing(points: pd.DataFrame, protocol: str) -> list[str]:
    """Networks of a protocol of the paper that the points do not have, without which its figures are of other networks."""
    there = set(points["network"])
    return [name for name in _WANTED.get(protocol, ()) if name not in there]


def _of(points: pd.DataFrame, names: Iterable[str]) -> Rows:
    return points["network"].isin(list(names)).to_numpy(dtype=bool)


def _some_of(points: pd.DataFrame, names: Iterable[str], seed: int) -> Rows:
    """A random share of each network's rows, to fit on."""
    rng = np.random.default_rng(seed)
    networks = points["network"].to_numpy(dtype=np.str_)
    train = np.zeros(len(points), dtype=bool)
    for name in names:
        own = rng.permutation(np.flatnonzero(networks == name))
        train[own[: round(SEEN_SHARE * len(own))]] = True
    return train


def _check(where: str, groups: Mapping[str, Rows], seen: Iterable[str], unseen: Iterable[str]) -> None:
    for what, rows in groups.items():
        if not rows.any():
            raise InputError(
                f"no row is {what} in the protocol of {where}: it takes some of {', '.join(seen)} and of {', '.join(unseen)}; "
                "give a table with them or take --protocol model"
            )
