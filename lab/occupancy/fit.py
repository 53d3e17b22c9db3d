"""Fit a predictor of SM occupancy, SM activity and peak memory to measured training runs.

Reads tables from `python -m lab.measure occupancy` and GPUMemNet's tables of random networks measured with DCGM.

python -m lab.fit occupancy --data trainings.csv --out my-gpu
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

from epochcast.analyzer.backends.occupancy.predictor import OccupancyManifest
from epochcast.analyzer.cli import progress
from epochcast.regressor import load_catalog
from epochcast.regressor.model_folder import require_place
from lab.commands import gpus_option
from lab.occupancy.fitting import fit_predictor
from lab.occupancy.models import save_predictor
from lab.occupancy.training_jobs import read_training_jobs


def reading_options(parser: argparse.ArgumentParser) -> None:
    """How tables of measured trainings are read."""
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--gpu", help="GPU that was measured, if a table does not name it (default: A100 SXM4 40GB)")


def options(parser: argparse.ArgumentParser) -> None:
    """What to fit a predictor of occupancy to."""
    parser.add_argument("--data", type=Path, action="append", required=True, help="measured trainings, CSV (repeatable)")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    reading_options(parser)
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Fit, and write the model's folder."""
    began = time.monotonic()
    catalog = load_catalog(asked.gpus)
    jobs = read_training_jobs(asked.data, catalog, None if asked.gpu is None else catalog.resolve(asked.gpu))
    require_place(asked.out, OccupancyManifest)  # before a fit that may take an hour
    predictor = fit_predictor(jobs, asked.seed, progress.show)
    save_predictor(predictor, asked.out)
    return {
        **predictor.fitted.model_dump(mode="json"),
        "seconds": round(time.monotonic() - began, 1),
        "left_out": {reason: count for reason, count in jobs.left_out.items() if count},
    }
