"""``epochcast recommend``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ...regressor import Predictor, load_catalog
from ..prices import load_prices
from ..profiles import read_profile
from ..recommend import Objective, Recommendation
from ..recommend import recommend as rank
from .tables import seconds_text, table


@click.command()
@click.argument("trace_or_profile")
@click.option("--gpu", metavar="NAME", help="The GPU it was recorded on, where the trace does not say.")
@click.option("--model", type=click.Path(path_type=Path), metavar="DIR", help="A model fitted by `epochcast train regressor`.")
@click.option("--objective", type=click.Choice(["cost", "time"]), default="cost", show_default=True, help="What to rank by.")
@click.option("--epochs", type=int, default=1, show_default=True, help="Epochs of the whole job.")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Your own price table (CSV), instead of ours.")
@click.option("--deadline", type=float, metavar="SECONDS", help="Only instances that finish the job in this time.")
@click.option("--budget", type=float, metavar="USD", help="Only instances that finish the job for this much.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recommend(
    trace_or_profile: str,
    gpu: str | None,
    model: Path | None,
    objective: Objective,
    epochs: int,
    prices: Path | None,
    deadline: float | None,
    budget: float | None,
    as_json: bool,
) -> int:
    """Rank cloud instances by the cost or the time of a job, from a trace or a profile of it. Exits 1 if none qualifies.

    \b
    Example: epochcast recommend run.parquet --epochs 90 --deadline 36000
    """
    catalog = load_catalog()
    profile = read_profile(trace_or_profile, catalog, gpu)
    instances, skipped = load_prices(prices, catalog)
    for sentence in skipped:
        click.echo(f"epochcast: {sentence}", err=True)
    predictions = Predictor.load(model).predict(profile)
    ranked = rank(predictions, instances, epochs=epochs, objective=objective, deadline_s=deadline, budget_usd=budget)
    if as_json:
        answer = {
            "source": profile.gpu,
            "simulated": profile.simulated,
            "epochs": epochs,
            "unit": profile.unit,
            "objective": objective,
            "recommendations": [row.to_json() for row in ranked],
        }
        click.echo(json.dumps(answer, indent=2))
    elif ranked:
        simulated = " (simulated telemetry)" if profile.simulated else ""
        what = f"{epochs} {profile.unit}{'s' if epochs > 1 else ''}" if profile.unit else "ratios only (no epochs found)"
        click.echo(f"{what} of a job seen on {profile.gpu}{simulated}, best {objective} first")
        click.echo(table(("instance", "cloud", "gpu", "time", "USD", "USD/h", "priced"), [_row(row) for row in ranked]))
    else:
        click.echo("epochcast: no instance meets the deadline and the budget", err=True)
    return 0 if ranked else 1


def _row(row: Recommendation) -> tuple[str, ...]:
    gpu = row.instance.gpu if row.instance.count == 1 else f"1 of {row.instance.count} {row.instance.gpu}"
    time = seconds_text(row.seconds) if row.seconds is not None else f"{row.ratio:.2f}x"
    usd = "-" if row.usd is None else f"{row.usd:.4f}"
    per_hour = f"{row.instance.usd_per_hour:.3f}"
    return row.instance.name, row.instance.cloud, gpu, time, usd, per_hour, row.instance.date.isoformat()
