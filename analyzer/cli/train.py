"""``epochcast train``: fit a predictor and write it to a folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from ...regressor import Predictor, load_catalog, load_corpus


@click.group()
def train() -> None:
    """Fit a predictor on measurements."""


@train.command()
@click.option(
    "--data", type=click.Path(path_type=Path), required=True, metavar="PATH", help="A corpus: CSV, or a folder of profiles."
)
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The folder to write the model to.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def regressor(data: Path, out: Path, as_json: bool) -> int:
    """Fit the black-box latency predictor on profiles of several GPUs.

    \b
    Example: epochcast train regressor --data cloud_hw_trainpred.csv --out my-model
    """
    began = time.monotonic()
    profiles = load_corpus(data)
    predictor = Predictor.fit(profiles, load_catalog())
    predictor.save(out)
    answer = {
        "rows": len(profiles),
        "gpus": sorted({profile.gpu for profile in profiles}),
        "seconds": round(time.monotonic() - began, 1),
    }
    text = f"{out}: fitted on {answer['rows']} profiles of {', '.join(answer['gpus'])} in {answer['seconds']} s"  # type: ignore[arg-type]
    click.echo(json.dumps(answer) if as_json else text)
    return 0
