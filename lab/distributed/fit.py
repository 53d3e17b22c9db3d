"""Fit the white-box model of distributed training to measured runs, measured operators, or both.

Runs set the efficiencies of the recipe `default`; without runs, it keeps the built-in ones. Operators set the model of
operator times. `epochcast predict-model distributed --calibration DIR` uses both.

python -m lab.fit distributed --data vtrain_multi_node.csv --out my-clusters
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.backends.distributed.fitted_model import DistributedManifest, DistributedModel
from epochcast.analyzer.backends.distributed.operator_time.learned import OperatorModel
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from epochcast.regressor.model_folder import require_place, save
from epochcast.regressor.scoring import score
from lab.commands import gpus_option
from lab.distributed.runs import MeasuredIteration, read_runs


def options(parser: argparse.ArgumentParser) -> None:
    """What to fit the model of distributed training to."""
    parser.add_argument("--data", type=Path, action="append", default=[], help="runs on several GPUs, CSV (repeatable)")
    parser.add_argument("--operators", type=Path, help="from `python -m lab.measure operators`, a CSV file or a folder")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the model to")
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Fit, and write the model's folder."""
    if not asked.data and asked.operators is None:
        raise InputError("nothing to fit on; give measured runs with --data CSV, or operators with --operators PATH")
    began = time.monotonic()
    require_place(asked.out, DistributedManifest)
    model, answer = DistributedModel.load(), {"rows": 0, "gpus": []}
    if asked.data:
        model, answer = fit_coefficients([run for path in asked.data for run in read_runs(path)])
    if asked.operators is not None:
        from lab.distributed.fitting import fit_operators
        from lab.distributed.neusight import read_corpus

        catalog = load_catalog(asked.gpus)
        corpus = read_corpus(asked.operators, catalog)
        progress.show(f"fitting {len(corpus)} operators")
        model = replace(model, operators=fit_operators(corpus, catalog))
        answer["operators"] = {"rows": len(corpus), "gpus": sorted(corpus["gpu"].unique())}
    save_model(model, asked.out)
    return {**answer, "seconds": round(time.monotonic() - began, 1)}


def fit_coefficients(
    runs: Sequence[MeasuredIteration], operators: OperatorModel | None = None
) -> tuple[DistributedModel, dict[str, Any]]:
    """The model with coefficients fitted to runs by operator times (None: the shipped), and their error on these very runs."""
    require_torch()
    from lab.evaluate.distributed_protocols import RunEvaluator

    operators = operators or DistributedModel.load().operators
    evaluator = RunEvaluator(progress.show, operators)
    coefficients = evaluator.fit(runs)
    scores = score(np.array([run.seconds for run in runs]), evaluator.predict(runs, coefficients))
    model = DistributedModel(
        coefficients,
        operators,
        gpus=tuple(sorted({run.gpu for run in runs})),
        parameters=evaluator.parameters(runs),
    )
    return model, {
        "rows": len(runs),
        "gpus": list(model.gpus),
        "coefficients": vars(coefficients),
        "in_sample_mape": scores.mape,
        "in_sample_median_ape": scores.median_ape,
    }


def save_model(model: DistributedModel, folder: Path) -> None:
    """Write the model into a folder, whole or not at all.

    Raises:
        InputError: the folder holds something else or cannot be written.
    """
    state = {
        "coefficients": model.coefficients,
        "fitted_on": {"gpus": model.gpus, "parameters": model.parameters},
        "operators": _state(model.operators),
    }
    arrays = {name: family.trees.arrays() for name, family in model.operators.families.items()}
    save(folder, DistributedManifest, state | arrays)


def _state(model: OperatorModel) -> dict[str, Any]:
    """The operator model but for its trees."""
    return {
        "boards": {gpu: {"tdp": tdp, "compute_capability": cc} for gpu, (tdp, cc) in model.boards.items()},
        "families": {
            name: [{"gpu": gpu, "dtype": dtype, **asdict(rates)} for (gpu, dtype), rates in sorted(family.rates.items())]
            for name, family in model.families.items()
        },
    }
