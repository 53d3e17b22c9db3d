"""Fit the coefficients that come with Epochcast on vTrain's measured runs; ``--write`` puts them into the shipped model.

Usage: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.fit_coefficients [--write]
"""

import os
import sys
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from epochcast.analyzer.backends.distributed.coefficients import Coefficients
from epochcast.analyzer.backends.distributed.evaluation import RunEvaluator
from epochcast.analyzer.backends.distributed.fitted_model import SHIPPED, FittedModel
from epochcast.analyzer.backends.distributed.runs import read_runs

table = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/distributed/vtrain_multi_node.csv"
if not table.exists():
    sys.exit(f"{table} is not there; set EPOCHCAST_SHARED")
runs = read_runs(table)
evaluator = RunEvaluator()
fitted = evaluator.fit(runs)
for name, value in asdict(fitted).items():
    print(f"{name:15} {value:.4g}  (believed {getattr(Coefficients(), name):.4g})")
errors = 100 * np.abs(evaluator.predict(runs, fitted) / np.array([run.seconds for run in runs]) - 1)
print(f"{len(runs)} runs, error on these very rows: mean {errors.mean():.1f} %, median {np.median(errors):.1f} %")
if "--write" in sys.argv:
    gpus = tuple(sorted({run.gpu for run in runs}))
    replace(FittedModel.load(), coefficients=fitted, runs=len(runs), gpus=gpus).save(SHIPPED)
