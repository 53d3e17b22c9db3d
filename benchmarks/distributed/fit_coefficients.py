"""Fit the coefficients that come with Epochcast on vTrain's measured runs, and write them beside the code with ``--write``.

Usage: EPOCHCAST_SHARED=../shared python -m benchmarks.distributed.fit_coefficients [--write]
"""

import os
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from epochcast.analyzer.backends.distributed import coefficients
from epochcast.analyzer.backends.distributed.evaluation import RunEvaluator
from epochcast.analyzer.backends.distributed.runs import read_runs

table = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/distributed/vtrain_multi_node.csv"
if not table.exists():
    sys.exit(f"{table} is not there; set EPOCHCAST_SHARED")
runs = read_runs(table)
evaluator = RunEvaluator()
fitted = evaluator.fit(runs)
for name, value in asdict(fitted).items():
    print(f"{name:15} {value:.4g}  (believed {getattr(coefficients.Coefficients(), name):.4g})")
errors = 100 * np.abs(evaluator.predict(runs, fitted) / np.array([run.seconds for run in runs]) - 1)
print(f"{len(runs)} runs, error on these very rows: mean {errors.mean():.1f} %, median {np.median(errors):.1f} %")
if "--write" in sys.argv:
    fitted.save(Path(coefficients.__file__).parent)
