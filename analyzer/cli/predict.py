"""``epochcast predict``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ...regressor import Predictor, load_catalog
from ..profiles import read_profile
from .tables import seconds_text, table


@click.command()
@click.argument("trace_or_profile")
@click.option("--gpu", metavar="NAME", help="The GPU it was recorded on, where the trace does not say.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Predict for this GPU (repeatable). [default: all]")
@click.option("--model", type=click.Path(path_type=Path), metavar="DIR", help="A model fitted by `epochcast train regressor`.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def predict(trace_or_profile: str, gpu: str | None, targets: tuple[str, ...], model: Path | None, as_json: bool) -> int:
    """Predict the epoch time on every GPU of the catalogue from a trace or a profile (.json).

    \b
    Example: epochcast predict run.parquet --target A10G --target "H100 SXM5"
    """
    catalog = load_catalog()
    profile = read_profile(trace_or_profile, catalog, gpu)
    predictor = Predictor.load(model)
    predictions = predictor.predict(profile, [catalog.resolve(name).name for name in targets] or None)
    if as_json:
        answer = {
            "source": profile.gpu,
            "epoch_s": profile.epoch_s,
            "unit": profile.unit,
            "simulated": profile.simulated,
            "feature_set": profile.feature_set,
            "predictions": [prediction.to_json() for prediction in predictions],
        }
        click.echo(json.dumps(answer, indent=2))
        return 0
    found = f"{seconds_text(profile.epoch_s)} per {profile.unit}" if profile.unit else "no epochs found: ratios only"
    click.echo(f"from {profile.gpu}{' (simulated)' if profile.simulated else ''}: {found}")
    rows = [
        (
            prediction.gpu,
            f"{prediction.ratio:.2f}x",
            seconds_text(prediction.seconds),
            f"{seconds_text(prediction.low)} to {seconds_text(prediction.high)}" if prediction.low is not None else "-",
        )
        for prediction in predictions
    ]
    click.echo(table(("gpu", "ratio", "seconds", "90 % interval"), rows))
    if targets:
        click.echo("\n".join(f"{prediction.gpu}: {prediction.why}" for prediction in predictions))
    else:
        click.echo("what an answer rests on: --target NAME, or --json")
    return 0
