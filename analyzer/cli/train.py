"""``epochcast train``: fit a predictor and write it to a folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from ...regressor import Predictor, load_catalog
from ..corpora import load_training_data


@click.group()
def train() -> None:
    """Fit a predictor on measurements."""


@train.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    metavar="PATH",
    help="A corpus: CSV, a folder of profiles, or a folder of traces with label files.",
)
@click.option("--gpus", type=click.Path(path_type=Path), metavar="FILE", help="A TOML file with GPUs of your own.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The folder to write the model to.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def regressor(data: Path, gpus: Path | None, out: Path, as_json: bool) -> int:
    """Fit the black-box latency predictor on profiles of several GPUs.

    \b
    Example: epochcast train regressor --data cloud_hw_trainpred.csv --out my-model
             epochcast train regressor --data traces/ --out my-model

    Beside each trace NAME.parquet or NAME.csv stands NAME.json with its "workload", its "group" and, where known, its true
    epochs ("epoch_starts", "epoch_ends", "training"); otherwise they are detected.
    """
    began = time.monotonic()
    catalog = load_catalog(gpus)
    profiles = load_training_data(data, catalog)
    predictor = Predictor.fit(profiles, catalog)
    predictor.save(out)
    answer = {
        "rows": len(profiles),
        "gpus": sorted({profile.gpu for profile in profiles}),
        "seconds": round(time.monotonic() - began, 1),
    }
    text = f"{out}: fitted on {answer['rows']} profiles of {', '.join(answer['gpus'])} in {answer['seconds']} s"  # type: ignore[arg-type]
    click.echo(json.dumps(answer) if as_json else text)
    return 0
