"""Peak memory of trainings and whether they run out of it, against what was measured; part `peak-memory` of docs/occupancy.md.

Networks are left out by equal `layers`, in eight folds, or by architecture family. Rows without layers or with a peak of 0 have
no answer; those that crashed take part in the question whether a training runs out of memory alone.

Run: python -m lab.speed.occupancy.peak_memory [--write]
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.occupancy.packing.jobs import GPU
from epochcast.analyzer.backends.occupancy.peak_memory import estimate
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import Scores, score
from lab.evaluate.common import random_folds
from lab.occupancy.models import FittedTrees
from lab.occupancy.peak_memory_fit import fit_peak_memory
from lab.occupancy.training_jobs import TrainingJobs, read_training_jobs
from lab.speed.page import OCCUPANCY, markdown_table, options, public, publish

FOLDS = 8
TABLES = {"CNN": "measured_cnn.csv.gz", "MLP": "measured_mlp.csv.gz"}
TARGETS = {"CNN": "at most 6 %", "MLP": "at most 0.6 %"}
LEAST = 96.0
"""Target of recall and precision, percent."""

Floats = NDArray[np.float64]


def lines() -> Iterator[str]:
    """Both tables."""
    catalog = load_catalog()
    memory = catalog.resolve(GPU).memory
    peaks, crashes = [], []
    for table, file in TABLES.items():
        jobs = read_training_jobs([public(f"occupancy/{file}")], catalog)
        fits = jobs.points["fits"].to_numpy(dtype=bool)
        measured = jobs.points["peak_memory"].to_numpy(dtype=float)
        shapes = np.array([estimate(sample).peak for sample in jobs.samples])
        layers = random_folds(jobs.points["layers"].to_numpy(dtype=str), FOLDS, 0)
        for protocol, groups in (("layers", layers), ("family", jobs.points["architecture"].to_numpy(dtype=str))):
            alone, both, low, high, risk = held_out(jobs, groups)
            target = TARGETS[table] if protocol == "layers" else ""
            inside = 100 * np.mean((low <= measured)[fits] & (measured <= high)[fits])
            figures = [f(score(measured[fits], one[fits])) for one in (shapes, alone, both) for f in (_mape, _median)]
            peaks.append((f"{table}, {protocol}", str(fits.sum()), *figures, f"{inside:.0f}", target))
            if not fits.all():
                for name, verdict in (("shapes alone", shapes > memory), ("both", risk > 0.5)):
                    crashes.append((f"{table}, {protocol}: {name}", *verdict_figures(~fits, verdict)))
    header = ("left out", "n", "shapes MAPE %", "median", "trees MAPE %", "median", "both MAPE %", "median", "in 90 % interval")
    yield from markdown_table((*header, "target of both"), peaks)
    yield ""
    yield from markdown_table(("out of memory", "crashed", "fit", "recall %", "precision %", "target"), crashes)


def held_out(jobs: TrainingJobs, groups: NDArray[np.str_]) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Of each group by fits on all others, shape (n,) each: trees alone; both, its interval's ends, and the risk."""
    answers = np.full((5, len(groups)), np.nan)
    for group in np.unique(groups):
        test = groups == group
        samples = list(jobs.only(test).samples)
        train = jobs.only(~test)
        ran = train.labelled("peak_memory")
        trees = FittedTrees().fit(ran.samples, ran.points["peak_memory"].to_numpy(dtype=float))
        answers[:, test] = [trees.predict(samples), *fit_peak_memory(train).predict(samples)]
    alone, both, low, high, risk = answers
    return alone, both, low, high, risk


def verdict_figures(crashed: NDArray[np.bool_], verdict: NDArray[np.bool_]) -> tuple[str, ...]:
    """Counts, recall and precision."""
    right = np.count_nonzero(crashed & verdict)
    recall, precision = 100 * right / np.count_nonzero(crashed), 100 * right / max(int(np.count_nonzero(verdict)), 1)
    return str(crashed.sum()), str((~crashed).sum()), f"{recall:.1f}", f"{precision:.1f}", f"at least {LEAST:g}"


def _mape(scores: Scores) -> str:
    return f"{scores.mape:.2f}"


def _median(scores: Scores) -> str:
    return f"{scores.median_ape:.2f}"


if __name__ == "__main__":
    publish(OCCUPANCY, "peak-memory", lines(), write=options(__doc__).parse_args().write)
