"""All models on measured labels: SM occupancy of random networks in training on an A100; parts `measured-models` and
`measured-curve` of docs/occupancy.md.

What leaves together: equal lists of layers, an architecture family, the deepest or the widest quarter of the networks.
Networks of PyTorch learn for a minute per fit: they are fitted on fewer rows, in fewer of the folds by layers. Set
OMP_NUM_THREADS=1.

Run: python -m benchmarks.occupancy.measured [PART…] [--write]
"""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import compress, product

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.evaluation import Answers, figures
from epochcast.analyzer.backends.occupancy.modelled_launches import ModelledLaunches
from epochcast.analyzer.backends.occupancy.models import MODELS, Model, make
from epochcast.analyzer.backends.occupancy.training_jobs import GPU, TrainingJobs, read_training_jobs
from epochcast.analyzer.evaluation import Rows, Split, hold_out, leave_each_out, random_folds
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table, part_options, public, publish_parts

TABLES = {"CNN": "measured_cnn", "MLP": "measured_mlp"}
LAUNCHES = "modelled-launches"
"""The launch calculation: the time mean of the forward pass, without a fit."""
QUICK = ("boosting", "nearest", "mean", LAUNCHES)
"""Models without epochs: fitted on all rows, in all folds."""
FOLDS = 8
NETWORK_FOLDS = 2
"""Of the folds by layers, those in which networks of PyTorch are fitted."""
NETWORK_ROWS = 200
"""The most rows, drawn at random, that networks of PyTorch are fitted on."""
EPOCHS = 8
"""Of networks of PyTorch, what two shared cores do in a quarter of an hour; the paper gives no number."""
BEYOND = 0.75
"""Share of the rows, the shallowest or narrowest, that is fitted on where depth or width is left out."""
CURVE_ROWS = (50, 100, 200, None)
DRAWS = 3
SEED = 0


def by_layers(points: pd.DataFrame) -> list[Split]:
    """Equal networks leave together."""
    return leave_each_out(random_folds(points["layers"].to_numpy(dtype=np.str_), FOLDS, SEED))


def beyond(points: pd.DataFrame, size: str) -> list[Split]:
    """The largest are predicted from the others."""
    inside = (points[size] <= points[size].quantile(BEYOND)).to_numpy()
    return [Split(inside, {f"beyond in {size}": ~inside})]


PROTOCOLS: Mapping[str, Callable[[pd.DataFrame], list[Split]]] = {
    "layers": by_layers,
    "architecture": lambda points: leave_each_out(points["architecture"].to_numpy(dtype=np.str_)),
    "depth": partial(beyond, size="depth"),
    "width": partial(beyond, size="width"),
}


def jobs_of(table: str) -> TrainingJobs:
    """Rows that ran to their end with an SM occupancy."""
    jobs = read_training_jobs([public(f"occupancy/{TABLES[table]}.csv.gz")], load_catalog().resolve(GPU))
    return jobs.labelled("sm_occupancy")


def model_of(name: str, target: str = "ratio") -> Model:
    """Unfitted; ``target`` as in :class:`.models.Settings`."""
    if name == LAUNCHES:
        return ModelledLaunches("time_mean")
    return make(name, seed=SEED, target=target, **({} if name in QUICK else {"epochs": EPOCHS}))


def some(rows: Rows, count: int | None, seed: int = SEED) -> Rows:
    """As many of the rows as that, at random; all of them where there are no more."""
    places = np.flatnonzero(rows)
    return np.isin(np.arange(len(rows)), np.random.default_rng(seed).permutation(places)[:count])


def answers_of(jobs: TrainingJobs, make_model: Callable[[], Model], splits: Sequence[Split]) -> Answers:
    """What fits on each split's rows answer for its tests."""
    occupancies = jobs.points["sm_occupancy"].to_numpy()

    def predict(train: Rows, test: Rows) -> np.ndarray:
        model = make_model().fit(list(compress(jobs.samples, train)), occupancies[train])
        return model.predict(list(compress(jobs.samples, test)))

    return hold_out(jobs.points, occupancies, splits, predict, figures)


def splits_for(name: str, points: pd.DataFrame, protocol: str) -> list[Split]:
    """All of a protocol; for networks of PyTorch fewer folds by layers, and fewer rows to fit on."""
    splits = PROTOCOLS[protocol](points)
    if name in QUICK:
        return splits
    folds = splits[:NETWORK_FOLDS] if protocol == "layers" else splits
    return [Split(some(fold.train, NETWORK_ROWS), fold.tests) for fold in folds]


def model_row(jobs: TrainingJobs, name: str, target: str = "ratio", protocols: Sequence[str] = tuple(PROTOCOLS)) -> list[str]:
    """Cells of a model: MAPE and median of each protocol, and the worst family's MAPE."""
    cells = [f"`{name}`" + (", logarithms" if target == "seconds" else "")]
    for protocol in protocols:
        answers = answers_of(jobs, partial(model_of, name, target), splits_for(name, jobs.points, protocol))
        cells.append(f"{answers.figures.mape:.1f} / {answers.figures.median_ape:.1f}")
        if protocol == "architecture":
            worst, its = max(answers.by_test().items(), key=lambda test: test[1].mape)
            cells.append(f"{its.mape:.1f} {worst}")
        print(cells[0], protocol, *cells[1:], f"n = {answers.figures.n}", file=sys.stderr, flush=True)
    return cells


def models() -> Iterator[str]:
    """A table for each kind of network."""
    for table in TABLES:
        jobs = jobs_of(table)
        counts = [sum(int(own.sum()) for split in of(jobs.points) for own in split.tests.values()) for of in PROTOCOLS.values()]
        header = [f"{name} (n = {n})" for name, n in zip(("equal layers", "a family", "depth", "width"), counts, strict=True)]
        header.insert(2, "worst family")
        targets = [*product([*MODELS, LAUNCHES], ["ratio"]), ("boosting", "seconds"), ("dnn-occu", "seconds")]
        rows = [model_row(jobs, name, target) for name, target in targets]
        yield from markdown_table((f"{table}, left out: MAPE / median %", *header), rows)
        yield ""


def curve() -> Iterator[str]:
    """MAPE by rows to learn from, on the first folds by layers."""
    for table in TABLES:
        jobs = jobs_of(table)
        rows = [[f"`{name}`", *(curve_cell(jobs, name, count) for count in CURVE_ROWS)] for name in ("boosting", "dnn-occu")]
        header = [str(count or "all") for count in CURVE_ROWS]
        yield from markdown_table((f"{table}: MAPE % (± over {DRAWS} draws) by rows", *header), rows)
        yield ""


def curve_cell(jobs: TrainingJobs, name: str, count: int | None) -> str:
    """A draw for each of the first folds."""
    folds = by_layers(jobs.points)[:DRAWS]
    splits = [Split(some(fold.train, count, seed), fold.tests) for seed, fold in enumerate(folds)]
    answers = answers_of(jobs, partial(model_of, name), splits)
    cell = f"{answers.figures.mape:.1f} ± {answers.spread:.1f}"
    print(name, count, cell, file=sys.stderr, flush=True)
    return cell


if __name__ == "__main__":
    publish_parts(OCCUPANCY, {"measured-models": models(), "measured-curve": curve()}, part_options(__doc__))
