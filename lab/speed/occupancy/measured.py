"""SM occupancy of random networks in training on an A100: trees and the paper's DNN-occu on equal rows; part `measured-models`.

Both are fitted on all rows of the other folds and answer for the same rows; equal networks are never on both sides. DNN-occu
takes a core 20 minutes, so two of the eight folds are scored. Set OMP_NUM_THREADS=1.

Run: python -m lab.speed.occupancy.measured [--write]
"""

import sys
from collections.abc import Iterator
from functools import partial

import numpy as np

from epochcast.analyzer.backends.occupancy.modelled import model_sm_use
from epochcast.regressor import load_catalog
from epochcast.regressor.scoring import score
from lab.evaluate.occupancy_protocols import FOLDS, PROTOCOLS, cross_validate
from lab.occupancy.models import EPOCHS, MODELS
from lab.occupancy.training_jobs import TrainingJobs, read_training_jobs
from lab.speed.page import OCCUPANCY, markdown_table, options, public, publish

LABEL = "sm_occupancy"
TABLES = {"CNN": "measured_cnn", "MLP": "measured_mlp"}
SCORED = 2
"""Of the folds by layers."""
SEED = 0


def jobs_of(table: str) -> TrainingJobs:
    """Rows that ran to their end with an SM occupancy."""
    return read_training_jobs([public(f"occupancy/{TABLES[table]}.csv.gz")], load_catalog()).labelled(LABEL)


def lines() -> Iterator[str]:
    """A row for each kind of network and model."""
    rows = []
    for table in TABLES:
        jobs = jobs_of(table)
        splits = PROTOCOLS["layers"](jobs.points, FOLDS, SEED)[:SCORED]
        tested = [next(iter(split.tests.values())) for split in splits]
        counts = [" + ".join(str(rows.sum()) for rows in each) for each in ([split.train for split in splits], tested)]
        for name, make in MODELS.items():
            answers = cross_validate(jobs, LABEL, partial(make, SEED, EPOCHS), splits)
            folds = " / ".join(f"{scores.mape:.1f} ({scores.median_ape:.1f})" for scores in answers.by_test().values())
            rows.append((f"{table}, `{name}`", *counts, f"{answers.figures.mape:.1f}", folds))
            print(*rows[-1], file=sys.stderr, flush=True)
        modelled = []
        for own in tested:
            samples, measured = jobs.only(own).samples, jobs.points[LABEL][own].to_numpy()
            launches = [model_sm_use(sample.graph, sample.gpu, "fp32").occupancy for sample in samples]
            modelled.append(score(measured, np.array(launches)))
        mape = sum(each.n * each.mape for each in modelled) / sum(each.n for each in modelled)
        folds = " / ".join(f"{each.mape:.1f} ({each.median_ape:.1f})" for each in modelled)
        rows.append((f"{table}, modelled launches", "none", counts[1], f"{mape:.1f}", folds))
    header = ("model", "rows fitted, by fold", "rows answered", "MAPE %", "MAPE (median) % by fold")
    yield from markdown_table(header, rows)


if __name__ == "__main__":
    publish(OCCUPANCY, "measured-models", lines(), write=options(__doc__).parse_args().write)
