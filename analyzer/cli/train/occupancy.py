"""``epochcast train occupancy``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ....regressor import load_catalog
from ....regressor.model_folder import require_place
from ...backends.occupancy.answer import fitted_json
from ...backends.occupancy.label_files import read_all
from ...backends.occupancy.labelled_samples import labelled_samples, of_one_kind
from ...backends.occupancy.models import EPOCHS, MODELS
from ...backends.occupancy.points import LABELS, TARGETS
from ...backends.occupancy.predictor import DEFAULT_MODEL, FOLDS, OccupancyManifest, Predictor
from ...plain_json import plain_json
from .. import progress, terminal
from ..choices import one_of_many
from ..occupancy_text import fitted_text, labels_text
from ..shared_options import gpus_option, json_option, model_out_option

_PATH = click.Path(path_type=Path)


@click.command("occupancy")
@click.option(
    "--data",
    type=_PATH,
    multiple=True,
    required=True,
    metavar="PATH",
    help="Table of labels, or the folder that holds it (repeatable).",
)
@click.option("--model", default=DEFAULT_MODEL, show_default=True, **one_of_many(list(MODELS), "Model to fit"))
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="mean",
    show_default=True,
    help="Occupancy to predict: mean over kernels, weighted by time, or maximum.",
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
@click.option(
    "--folds",
    type=click.IntRange(0, 1000),
    default=FOLDS,
    show_default=True,
    metavar="N",
    help="Groups of networks to leave out in turn, to estimate the error on new ones; 0: one fit, no interval.",
)
@click.option("--labels", type=click.Choice(LABELS), help="Use only rows with these labels, if a table has several kinds.")
@click.option("--gpu", metavar="NAME", help="GPU it was measured on, if the table does not name it.")
@gpus_option
@model_out_option
@json_option
def occupancy(
    data: tuple[Path, ...],
    model: str,
    target: str,
    epochs: int,
    seed: int,
    folds: int,
    labels: str | None,
    gpu: str | None,
    gpus: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """Fit a predictor of GPU occupancy to measured networks.

    Reads tables that `epochcast benchmark occupancy` writes, in files or in folders. PyTorch exports each network once, for its
    graph.

    \b
    Example: epochcast train occupancy --data points.csv --out my-gpu
             epochcast train occupancy --data points.csv --model dnn-occu \\
                 --epochs 50 --out my-gpu
    """
    began = time.monotonic()
    catalog = load_catalog(gpus)
    progress.show("reading")
    reading = read_all(data, catalog, None if gpu is None else catalog.resolve(gpu))
    labelled = labelled_samples(of_one_kind(reading.points, labels), catalog, progress.show)
    require_place(out, OccupancyManifest)  # before a fit that may take an hour
    predictor = Predictor.fit(labelled, model, target, {"seed": seed, "epochs": epochs}, folds, progress.show)
    progress.clear()
    for sentence in (*reading.notes, *(f"left out: {name}: {reason}" for name, reason in labelled.left_out.items())):
        terminal.note(sentence)
    predictor.save(out)
    answer = {
        **fitted_json(predictor),
        "seconds": round(time.monotonic() - began, 1),
        "left_out": {**reading.left_out, **({"the network cannot be built": labelled.lacking} if labelled.lacking else {})},
    }
    terminal.say(plain_json(answer) if as_json else _text(answer, out), as_is=as_json)
    return 0


def _text(answer: Mapping[str, Any], out: Path) -> str:
    left_out = ", ".join(f"{count} {reason}" for reason, count in answer["left_out"].items())
    return "\n".join(
        [
            labels_text(answer["labels"]),
            f"{out}: {fitted_text(answer)}",
            f"{answer['seconds']} s" + (f"; rows left out: {left_out}" if left_out else ""),
        ]
    )
