"""``epochcast fit regressor``."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import click

from ....regressor import LatencyPredictor, PaperPredictor, load_catalog
from ....regressor.manifest import PaperManifest, RegressorManifest
from ....regressor.model_folder import require_place
from ....regressor.precision import PRECISIONS, Precision
from ...answers.answer_schema import Recipe
from ...corpus.training_data import load_training_data
from .. import progress, terminal
from ..shared_options import gpus_option, json_option, model_out_option

_NEW = {"P2": "on a new workload", "P3": "on a new model", "P4": "on a new GPU"}


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    metavar="PATH",
    help="Corpus (repeatable): a campaign's folder, CSV, a folder of profiles, or of traces with label files.",
)
@gpus_option
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    help="Precision of jobs in the data that do not name their own; tf32: FP32 code, fp32: FP32 with TF32 off. "
    "[default: what the telemetry shows, else unknown]",
)
@click.option(
    "--recipe",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Epochcast's own predictor, or the black-box paper's.",
)
@model_out_option
@json_option
def regressor(
    data: tuple[Path, ...], gpus: Path | None, precision: Precision | None, recipe: Recipe, out: Path, as_json: bool
) -> int:
    """Fit the black-box latency predictor to profiles of several GPUs.

    \b
    Example: epochcast fit regressor --data cloud_hw_trainpred.csv \\
                 --out my-model
             epochcast fit regressor --data corpus-t4/ --data corpus-l4/ \\
                 --out my-model
             epochcast fit regressor --data traces/ --out my-model
             epochcast fit regressor --recipe paper \\
                 --data cloud_hw_trainpred.csv --out my-paper

    Runs on a CPU, or on a GPU that is in no catalogue, are left out and named. In a folder of traces each NAME.parquet or
    NAME.csv has a NAME.json with its "workload", its "group" and, if known, its true epochs ("epoch_starts", "epoch_ends",
    "training"); otherwise they are detected. The paper's recipe takes a few minutes: it is fitted a dozen times to get
    intervals, which the paper does not have.
    """
    began = time.monotonic()
    catalog = load_catalog(gpus)
    require_place(out, RegressorManifest if recipe == "default" else PaperManifest)  # before a fit of minutes
    profiles, left_out = load_training_data(data, catalog)
    for sentence in left_out:
        terminal.note(sentence)
    profiles = [replace(profile, precision=profile.precision or precision) for profile in profiles]
    predictor = (LatencyPredictor if recipe == "default" else PaperPredictor).fit(profiles, catalog, progress=progress.show)
    progress.clear()
    predictor.save(out)
    gpus_seen, seconds = sorted({profile.gpu for profile in profiles}), round(time.monotonic() - began, 1)
    metrics: Sequence[str] = ()
    excluded: Mapping[str, str] = {}
    if isinstance(predictor, PaperPredictor):
        measured, metrics, excluded = predictor.accuracy, predictor.metrics, predictor.recipe.excluded_
    else:
        measured, correction = predictor.reliability.accuracy, predictor.recipe.correction_
        if correction is not None:
            metrics, excluded = correction.features_.metrics, correction.features_.excluded
    accuracy = {protocol: figures["mape"] for protocol, figures in measured.items()}
    if as_json:
        answer = {
            "rows": len(profiles),
            "gpus": gpus_seen,
            "seconds": seconds,
            "mape": accuracy,
            "metrics": list(metrics),
            "excluded": dict(excluded),
        }
        click.echo(json.dumps(answer))
        return 0
    terminal.say(f"{out}: fitted on {len(profiles)} profiles of {', '.join(gpus_seen)} in {seconds} s")
    errors = ", ".join(f"{error:.1f} % {_NEW[protocol]}" for protocol, error in accuracy.items())
    terminal.say(f"mean error on what was left out: {errors}")
    if not metrics:
        terminal.say("metrics: none, as too few profiles have telemetry; only the speeds of GPUs were learnt")
        return 0
    terminal.say(f"metrics: {', '.join(metrics)}")
    if recipe == "default":  # the paper's are features, a hundred of them: --json
        for name, reason in excluded.items():
            terminal.say(f"not used: {name} ({reason})")
    return 0
