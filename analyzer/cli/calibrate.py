"""``epochcast calibrate``, and ``epochcast calibrate distributed``."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from epochcast.analyzer.backends.distributed.fit import fit_coefficients
from epochcast.analyzer.backends.distributed.fitted_model import DistributedManifest, DistributedModel
from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.shared_options import gpus_option, json_option, model_out_option
from epochcast.analyzer.corpus.training_data import load_training_data
from epochcast.analyzer.plugins import Settings
from epochcast.regressor import LatencyPredictor, load_catalog
from epochcast.regressor.model_folder import is_kind


@click.command()
@click.argument("model")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    metavar="PATH",
    help="Anchors measured on the new GPU and on one the model knows (repeatable): corpus, CSV, profiles or traces; for "
    "`distributed`, measured runs (CSV).",
)
@model_out_option
@gpus_option
@json_option
def calibrate(model: str, data: tuple[Path, ...], out: Path, gpus: Path | None, as_json: bool) -> int:
    """Calibrate MODEL (a folder, or the built-in `default` or `distributed`) with a few measurements.

    \b
    Example: epochcast calibrate default --data anchors-on-t4/ \\
                 --data anchors-on-l4/ --out my-model
             epochcast calibrate distributed --data my-runs.csv --out my-cluster
    """
    if _is_distributed(model):
        return _calibrate_distributed(model, data, out, as_json)
    # A folder of that name is meant by ./default.
    predictor = LatencyPredictor.load(None if model == "default" else Path(model), load_catalog(gpus))
    profiles, left_out = load_training_data(data, predictor.catalog)
    for sentence in left_out:
        terminal.note(sentence)
    calibrated = predictor.calibrate(profiles)
    calibrated.save(out)
    before = {calibration.gpu: calibration for calibration in predictor.calibrations}
    new = [calibration for calibration in calibrated.calibrations if calibration is not before.get(calibration.gpu)]
    if as_json:
        click.echo(json.dumps({"rows": len(profiles), "gpus": {calibration.gpu: calibration.workloads for calibration in new}}))
        return 0
    for calibration in new:
        terminal.say(
            f"{out}: predictions for {calibration.gpu} are corrected by {calibration.workloads} workloads measured on it"
        )
    return 0


def _is_distributed(model: str) -> bool:
    """Whether MODEL of `epochcast calibrate` means the white-box model of distributed training."""
    return model == "distributed" or is_kind(Path(model), DistributedManifest)


def _calibrate_distributed(model: str, data: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Fit the coefficients of MODEL again on measured runs, held by what they are in it; the folder may be the same."""
    before = DistributedModel.load() if model == "distributed" else DistributedModel.load(Path(model))
    fitted, runs = fit_coefficients(data, before.coefficients, Settings(progress=progress.show))
    progress.clear()
    # The shipped operator times serve models that have none of their own.
    replace(fitted, operators=None if model == "distributed" else before.operators).save(out)
    if as_json:
        click.echo(json.dumps(runs.model_dump()))
        return 0
    terminal.say(runs.text(out, before.coefficients))
    return 0
