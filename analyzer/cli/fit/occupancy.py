"""``epochcast fit occupancy``."""

from __future__ import annotations

import time
from pathlib import Path

import click

from ....regressor import load_catalog
from ....regressor.model_folder import require_place
from ...backends.occupancy.models import EPOCHS, MODELS
from ...backends.occupancy.predictor import DEFAULT_MODEL, OccupancyManifest, Predictor
from ...backends.occupancy.question import fitted_model
from ...backends.occupancy.training_jobs import read_training_jobs
from ...plain_json import plain_json
from .. import progress, terminal
from ..choices import one_of_many
from ..shared_options import gpus_option, json_option, model_out_option

_PATH = click.Path(path_type=Path)


@click.command("occupancy")
@click.option(
    "--data", type=_PATH, multiple=True, required=True, metavar="CSV", help="Table of measured trainings (repeatable)."
)
@click.option(
    "--model", default=DEFAULT_MODEL, show_default=True, **one_of_many(list(MODELS), "Model of SM occupancy and SM activity")
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    default=EPOCHS,
    show_default=True,
    metavar="N",
    help="Training epochs of a neural model.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, metavar="N", help="Seed of the random numbers."
)
@click.option("--gpu", metavar="NAME", help="GPU it was measured on, if the table does not name it. [default: A100 SXM4 40GB]")
@gpus_option
@model_out_option
@json_option
def occupancy(
    data: tuple[Path, ...],
    model: str,
    epochs: int,
    seed: int,
    gpu: str | None,
    gpus: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """Fit a predictor of SM occupancy, SM activity and peak memory to measured trainings.

    Reads tables that `epochcast measure occupancy` writes, and those of random networks that DCGM measured (GPUMemNet).

    \b
    Example: epochcast fit occupancy --data trainings.csv --out my-gpu
             epochcast fit occupancy --data trainings.csv --model dnn-occu \\
                 --epochs 50 --out my-gpu
    """
    began = time.monotonic()
    catalog = load_catalog(gpus)
    progress.show("reading")
    jobs = read_training_jobs(data, catalog, None if gpu is None else catalog.resolve(gpu))
    require_place(out, OccupancyManifest)  # before a fit that may take an hour
    predictor = Predictor.fit(jobs, model, {"seed": seed, "epochs": epochs}, progress.show)
    progress.clear()
    predictor.save(out)
    fitted, seconds = fitted_model(predictor), round(time.monotonic() - began, 1)
    left_out = {reason: count for reason, count in jobs.left_out.items() if count}
    if as_json:
        terminal.say(plain_json({**fitted.model_dump(), "seconds": seconds, "left_out": left_out}), as_is=True)
    else:
        rest = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        terminal.say(f"{out}: {fitted.text}\n{seconds} s" + (f"; rows left out: {rest}" if rest else ""))
    return 0
