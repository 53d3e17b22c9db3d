"""How well predictors answer for networks that they were not fitted on, by the DNN-occu paper's protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress, pairwise

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....regressor.scoring import Scores, score
from ...errors import InputError
from ...evaluation import HeldOut, Progress, Rows, Split, hold_out, leave_each_out, random_folds
from .labelled_samples import LabelledSamples
from .models import Model

FEWEST_NETWORKS = 3
"""With two, one would be predicted from the other alone."""

SIZE_EDGES = (0, 25, 50, 100, 200, 400, 800)
"""Of the bins by nodes and by edges, as in Fig. 5, which does not say its own; the last has no upper end."""

# The networks of the paper (Table II, section V) by our names.

SEEN = {
    "ViT-T": "vit_tiny_patch16_224",
    "LSTM": "lstm",
    "RNN": "rnn",
    "ResNet-34": "resnet34",
    "ResNet-18": "resnet18",
    "VGG-16": "vgg16",
    "VGG-13": "vgg13",
    "VGG-11": "vgg11",
    "AlexNet": "alexnet",
    "LeNet": "lenet",
}
"""Section V: 80 % of their configurations are fitted on."""

SEEN_SHARE = 0.8
"""Of the seen networks' configurations that are fitted on (section V)."""

UNSEEN = {
    "ViT-S": "vit_small_patch16_224",
    "BERT": "distilbert",
    "ConvNext-B": "convnext_base",
    "ResNet-50": "resnet50",
}
"""Section V: none of their configurations is fitted on. Its BERT is a DistilBERT (section IV-A)."""

TRANSFORMER_SEEN = "vit_tiny_patch16_224"
"""Table V: fitted on alone."""

TRANSFORMERS_UNSEEN = {
    "Swin Transformer": "swin_small_patch4_window7_224",
    "MaxViT": "maxvit_tiny_tf_224",
    "ViT-S": "vit_small_patch16_224",
    "BERT": "distilbert",
    "GPT-2": "gpt2",
}
"""Table V; the variants of Swin and MaxViT are those of Table II."""

CLIP_SEEN = {"RN50": "clip_rn50", "ViT-B/16": "clip_vit_b16"}
CLIP_UNSEEN = {"ViT-B/32": "clip_vit_b32"}
"""Table IV. What else was fitted on is not said: here the seen networks of section V, as in the protocol ``paper``."""

Make = Callable[[], Model]
"""A predictor that was not fitted yet."""


@dataclass(frozen=True)
class Figures(Scores):
    """``Scores``, and what section IV-C calls them: ``mre`` in percent (equal to ``mape``) and ``mse`` of ratios 0..1."""

    mre: float
    mse: float


Answers = HeldOut[Figures]
"""What one predictor says of the tested rows, ratios 0..1; points have ``nodes`` and ``edges``."""


def figures(measured: NDArray[np.float64], predicted: NDArray[np.float64]) -> Figures:
    """Compare ratios, shape (n,) each; NaN in ``predicted`` is a row without an answer."""
    scores = score(measured, predicted)
    return Figures(**vars(scores), mre=scores.mape, mse=scores.rmse**2)


def figures_by(answers: Answers) -> dict[str, dict[str, Figures]]:
    """Error figures of each test, and by what the rows differ in; nodes and edges in the bins of :data:`SIZE_EDGES`."""
    ends = [*(f"{low}-{high - 1}" for low, high in pairwise(SIZE_EDGES)), f"{SIZE_EDGES[-1]}+"]
    bins = {name: pd.cut(answers.points[name], [*SIZE_EDGES, np.inf], right=False, labels=ends) for name in ("nodes", "edges")}
    whole = {name: answers.by(name) for name in ("network", "family", "gpu", "precision", "batch")}
    return {"test": answers.by_test(), **whole, **{name: answers.by(keys) for name, keys in bins.items()}}


def cross_validate(
    data: LabelledSamples, target: str, make: Make, splits: Sequence[Split], progress: Progress | None = None
) -> Answers:
    """Fit anew for each split and predict the rows that it tests.

    Args:
        data: all rows.
        target: one of ``points.TARGETS``.
        make: the predictor.
        splits: no row is tested by two of them.
        progress: called with the fit at work.

    Raises:
        InputError: no row could be predicted.
    """
    return _held_out(data, data, target, make, splits, progress)


def train_and_test(train: LabelledSamples, test: LabelledSamples, target: str, make: Make) -> Answers:
    """Fit on one table only and predict another.

    Raises:
        InputError: it could not be fitted.
    """
    split = Split(np.ones(len(train.samples), dtype=bool), {"test": np.ones(len(test.samples), dtype=bool)})
    return _held_out(train, test, target, make, [split], None)


def _held_out(
    known: LabelledSamples,
    asked: LabelledSamples,
    target: str,
    make: Make,
    splits: Sequence[Split],
    progress: Progress | None,
) -> Answers:
    occupancies = known.occupancies(target)

    def predict(train: Rows, test: Rows) -> NDArray[np.float64]:
        model = make().fit(list(compress(known.samples, train)), occupancies[train])
        return model.predict(list(compress(asked.samples, test)))

    return hold_out(asked.points, asked.occupancies(target), splits, predict, figures, progress)


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
    return leave_each_out(networks if folds is None or folds >= len(names) else random_folds(networks, folds, seed))


def seen_and_unseen(
    points: pd.DataFrame, folds: int | None, seed: int, *, where: str, seen: Mapping[str, str], unseen: Mapping[str, str]
) -> list[Split]:
    """Section V and Table IV: fitted on 80 % of the seen networks' rows; the rest of them, and the unseen ones, are tested.

    The seen rows lie between rows of the same network with a little smaller and larger batch: they are no test of new networks.
    The networks that section V saw are fitted on in Table IV too.
    """
    train = _some_of(points, {**SEEN, **seen}.values(), seed)
    tests = {"seen": _of(points, seen.values()) & ~train, "unseen": _of(points, unseen.values())}
    _check(where, tests, seen.values(), unseen.values())
    return [Split(train, tests)]


def transformers(points: pd.DataFrame, folds: int | None, seed: int) -> list[Split]:
    """Table V: fitted on ViT-T alone, tested on the other transformers."""
    own = _of(points, [TRANSFORMER_SEEN])
    tests = {name: rows for name in TRANSFORMERS_UNSEEN.values() if (rows := _of(points, [name])).any()}
    tested = _of(points, TRANSFORMERS_UNSEEN.values())
    _check("Table V", {"fitted on": own, "tested": tested}, [TRANSFORMER_SEEN], TRANSFORMERS_UNSEEN.values())
    return [Split(own, tests)]


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame, int | None, int], list[Split]]] = {
    "model": leave_models_out,
    "paper": partial(seen_and_unseen, where="section V", seen=SEEN, unseen=UNSEEN),
    "transformers": transformers,
    "clip": partial(seen_and_unseen, where="Table IV", seen=CLIP_SEEN, unseen=CLIP_UNSEEN),
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
