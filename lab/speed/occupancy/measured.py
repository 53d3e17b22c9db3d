"""All models on measured labels: SM occupancy of random networks in training on an A100; parts `measured-models` and
`measured-curve` of docs/occupancy.md.

Networks of PyTorch learn for minutes per fit: they are fitted on fewer rows, in fewer of the folds by layers; the first part
takes about two hours. Set OMP_NUM_THREADS=1.

Run: python -m lab.speed.occupancy.measured [PART…] [--write]
"""

import sys
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from epochcast.analyzer.backends.occupancy.modelled_kernels.kernels_of import occupancy_of
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import score
from lab.evaluate.common import Rows, Split
from lab.evaluate.occupancy_protocols import FOLDS, PROTOCOLS, Answers, cross_validate
from lab.occupancy.models import make
from lab.occupancy.training_jobs import TrainingJobs, read_training_jobs
from lab.rivals.occupancy import MODELS
from lab.speed.page import OCCUPANCY, markdown_table, part_options, public, publish_parts

LABEL = "sm_occupancy"
TABLES = {"CNN": "measured_cnn", "MLP": "measured_mlp"}
LAUNCHES = "modelled launches"
"""The launch calculation: occupancy of the forward pass weighted by time, without a fit."""
QUICK = ("trees", "mean")
"""Models without epochs: fitted on all rows, in all folds."""
NETWORK_FOLDS = 2
"""Of the folds by layers, those in which networks of PyTorch are fitted."""
NETWORK_ROWS = 400
"""The most rows, drawn at random, that networks of PyTorch are fitted on."""
EPOCHS = 30
"""Of networks of PyTorch, what a core does in two hours; the paper gives no number."""
CURVE_ROWS = (50, 100, 200, None)
DRAWS = 3
SEED = 0


def jobs_of(table: str) -> TrainingJobs:
    """Rows that ran to their end with an SM occupancy."""
    return read_training_jobs([public(f"occupancy/{TABLES[table]}.csv.gz")], load_catalog()).labelled(LABEL)


def answers_of(jobs: TrainingJobs, name: str, splits: Sequence[Split]) -> Answers:
    """What a model's fits on each split's rows answer for its tests."""
    settings = {} if name in QUICK else {"epochs": EPOCHS}
    return cross_validate(jobs, LABEL, partial(make, name, seed=SEED, **settings), splits)


def some(rows: Rows, count: int | None, seed: int = SEED) -> Rows:
    """As many of the rows as that, at random; all of them where there are no more."""
    places = np.flatnonzero(rows)
    return np.isin(np.arange(len(rows)), np.random.default_rng(seed).permutation(places)[:count])


def splits_for(name: str, jobs: TrainingJobs, protocol: str) -> list[Split]:
    """All of a protocol; for networks of PyTorch fewer folds by layers, and fewer rows to fit on."""
    splits = PROTOCOLS[protocol](jobs.points, FOLDS, SEED)
    if name in QUICK:
        return splits
    folds = splits[:NETWORK_FOLDS] if protocol == "layers" else splits
    return [Split(some(fold.train, NETWORK_ROWS), fold.tests) for fold in folds]


def model_row(jobs: TrainingJobs, name: str) -> list[str]:
    """Cells of a model: MAPE and median of each protocol, and the worst family's MAPE."""
    cells = [f"`{name}`"]
    for protocol in PROTOCOLS:
        answers = answers_of(jobs, name, splits_for(name, jobs, protocol))
        cells.append(f"{answers.figures.mape:.1f} / {answers.figures.median_ape:.1f}")
        if protocol == "architecture":
            worst, its = max(answers.by_test().items(), key=lambda test: test[1].mape)
            cells.append(f"{its.mape:.1f} {worst}")
        print(cells[0], protocol, *cells[1:], f"n = {answers.figures.n}", file=sys.stderr, flush=True)
    return cells


def launches_row(jobs: TrainingJobs) -> list[str]:
    """The same cells of the launch calculation, which nothing is fitted for."""
    measured = jobs.points[LABEL].to_numpy()
    modelled = np.array(
        [occupancy_of(sample.graph, sample.gpu, sample.configuration.precision).time_mean for sample in jobs.samples]
    )
    cells = [LAUNCHES]
    for protocol, splits_of in PROTOCOLS.items():
        tests = {name: rows for split in splits_of(jobs.points, FOLDS, SEED) for name, rows in split.tests.items()}
        rows = np.any(list(tests.values()), axis=0)
        figures = score(measured[rows], modelled[rows])
        cells.append(f"{figures.mape:.1f} / {figures.median_ape:.1f}")
        if protocol == "architecture":
            errors = {name: score(measured[own], modelled[own]).mape for name, own in tests.items()}
            worst = max(errors, key=errors.__getitem__)
            cells.append(f"{errors[worst]:.1f} {worst}")
    return cells


def models() -> Iterator[str]:
    """A table for each kind of network."""
    for table in TABLES:
        jobs = jobs_of(table)
        splits = [of(jobs.points, FOLDS, SEED) for of in PROTOCOLS.values()]
        counts = [sum(int(rows.sum()) for split in own for rows in split.tests.values()) for own in splits]
        header = [f"{name} (n = {n})" for name, n in zip(("equal layers", "a family", "depth", "width"), counts, strict=True)]
        header.insert(2, "worst family")
        rows = [*(model_row(jobs, name) for name in MODELS), launches_row(jobs)]
        yield from markdown_table((f"{table}, left out: MAPE / median %", *header), rows)
        yield ""


def curve() -> Iterator[str]:
    """MAPE by rows to learn from, on the first folds by layers."""
    rows = []
    for table in TABLES:
        jobs = jobs_of(table)
        rows += [
            [f"{table}, `{name}`", *(curve_cell(jobs, name, count) for count in CURVE_ROWS)] for name in ("trees", "dnn-occu")
        ]
    yield from markdown_table((f"MAPE % (± over {DRAWS} draws) by rows", *(str(count or "all") for count in CURVE_ROWS)), rows)


def curve_cell(jobs: TrainingJobs, name: str, count: int | None) -> str:
    """A draw for each of the first folds."""
    folds = PROTOCOLS["layers"](jobs.points, FOLDS, SEED)[:DRAWS]
    answers = answers_of(jobs, name, [Split(some(fold.train, count, seed), fold.tests) for seed, fold in enumerate(folds)])
    cell = f"{answers.figures.mape:.1f} ± {answers.spread:.1f}"
    print(name, count, cell, file=sys.stderr, flush=True)
    return cell


if __name__ == "__main__":
    publish_parts(OCCUPANCY, {"measured-models": models(), "measured-curve": curve()}, part_options(__doc__))
