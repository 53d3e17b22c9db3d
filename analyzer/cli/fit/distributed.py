"""``epochcast fit distributed``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from ....regressor import load_catalog
from ....regressor.model_folder import require_place
from ....regressor.scoring import score
from ...backends.distributed.backend import require_torch
from ...backends.distributed.coefficients import Coefficients
from ...backends.distributed.fitted_model import DistributedManifest, FittedModel
from ...backends.distributed.runs import read_runs
from ...errors import InputError
from ...tables import table
from .. import progress, terminal
from ..shared_options import gpus_option, json_option, model_out_option

_PATH = click.Path(path_type=Path)


@click.command()
@click.option("--data", type=_PATH, multiple=True, metavar="CSV", help="Measured runs on several GPUs (repeatable).")
@click.option("--operators", type=_PATH, metavar="PATH", help="Operators from `measure operators`, a CSV file or a folder.")
@gpus_option
@model_out_option
@json_option
def distributed(data: tuple[Path, ...], operators: Path | None, gpus: Path | None, out: Path, as_json: bool) -> int:
    """Fit the white-box model of distributed training to measured runs, measured operators, or both.

    Runs set the efficiencies of the recipe `default`; without runs the built-in ones stay. Operators set the model of
    `--operators learned`. `epochcast predict-model distributed --calibration DIR` uses both.

    \b
    Example: epochcast fit distributed --data vtrain_multi_node.csv \\
                 --out my-clusters
             epochcast fit distributed --operators operators.csv --out my-gpus
    """
    began = time.monotonic()
    if not data and operators is None:
        raise InputError("there is nothing to fit on; give measured runs with --data CSV, or operators with --operators PATH")
    require_place(out, DistributedManifest)
    answer: dict[str, Any] = {"rows": 0, "gpus": []}
    fitted = replace(FittedModel.load(), operators=None)
    if data:
        fitted, told = fit_runs(data, None)
        answer |= told
    if operators is not None:
        fitted, told = _with_operators(fitted, operators, gpus)
        answer |= {"operators": told}
    fitted.save(out)
    answer["seconds"] = round(time.monotonic() - began, 1)
    terminal.say(json.dumps(answer) if as_json else _text(answer, out), as_is=as_json)
    return 0


def fit_runs(data: tuple[Path, ...], belief: Coefficients | None) -> tuple[FittedModel, dict[str, Any]]:
    """Fit the coefficients on runs, held by ``belief``; and rows, GPUs and the error on these very rows."""
    runs = [run for path in data for run in read_runs(path)]
    require_torch()
    from ...backends.distributed.evaluation import RunEvaluator

    evaluator = RunEvaluator(progress.show)
    coefficients = evaluator.fit(runs, belief)
    progress.clear()
    scores = score(np.array([run.seconds for run in runs]), evaluator.predict(runs, coefficients))
    gpus = sorted({run.gpu for run in runs})
    told = {
        "rows": len(runs),
        "gpus": gpus,
        "coefficients": vars(coefficients),
        "in_sample_mape": scores.mape,
        "in_sample_median_ape": scores.median_ape,
    }
    fitted = FittedModel(
        coefficients,
        runs=len(runs),
        gpus=tuple(gpus),
        precisions=tuple(sorted({run.job.precision for run in runs})),
        parameters=evaluator.parameters(runs),
    )
    return fitted, told


def _with_operators(fitted: FittedModel, path: Path, gpus: Path | None) -> tuple[FittedModel, dict[str, Any]]:
    """The model with operator times fitted on a corpus; and rows and GPUs."""
    from ...backends.distributed.operator_time.corpus import read_corpus
    from ...backends.distributed.operator_time.fitting import fit_operators

    catalog = load_catalog(gpus)
    corpus = read_corpus(path, catalog)
    progress.show(f"fitting {len(corpus)} operators")
    operators = fit_operators(corpus, catalog)
    progress.clear()
    return replace(fitted, operators=operators), {"rows": len(corpus), "gpus": sorted(corpus["gpu"].unique())}


def _text(answer: Mapping[str, Any], out: Path) -> str:
    runs = fitted_text(answer, out, Coefficients()) if answer["rows"] else f"{out}: without runs, the efficiencies are ours"
    lines = [runs]
    if "operators" in answer:
        fitted = answer["operators"]
        lines.append(f"{out}: operator model fitted on {fitted['rows']} operators of {', '.join(fitted['gpus'])}")
    return "\n".join([*lines, f"took {answer['seconds']} s"])


def fitted_text(answer: Mapping[str, Any], out: Path, belief: Coefficients) -> str:
    """What :func:`fit_runs` found: the error on these very runs, and each coefficient beside what it was believed to be."""
    rows = [(name, f"{value:.3g}", f"{vars(belief)[name]:.3g}") for name, value in answer["coefficients"].items()]
    return "\n".join(
        [
            f"{out}: fitted on {answer['rows']} runs of {', '.join(answer['gpus'])}",
            f"error on these very runs: mean {answer['in_sample_mape']:.1f} %, median {answer['in_sample_median_ape']:.1f} % "
            "(on new ones: epochcast evaluate distributed)",
            table(("coefficient", "fitted", "believed"), rows),
        ]
    )
