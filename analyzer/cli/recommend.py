"""``epochcast recommend``."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ...regressor import Predictor, load_catalog
from ...regressor.job import estimate_job
from ..instances import load_instances
from ..profiles import read_source, with_own
from ..recommendation import Objective, Recommendation
from ..recommendation import recommend as rank
from .predict_text import interval_text, job_text
from .tables import seconds_text, table

_HEADER = ("instance", "cloud", "gpu", "time", "90 % interval", "USD", "USD/h", "priced")


@click.command()
@click.argument("trace_or_profile")
@click.option("--gpu", metavar="NAME", help="The GPU it was recorded on, where the trace does not say.")
@click.option("--gpus", type=click.Path(path_type=Path), metavar="FILE", help="A TOML file with GPUs of your own.")
@click.option("--model", type=click.Path(path_type=Path), metavar="DIR", help="A model fitted by `epochcast train regressor`.")
@click.option("--objective", type=click.Choice(["cost", "time"]), default="cost", show_default=True, help="What to rank by.")
@click.option("--epochs", type=int, metavar="N", help="Rank the whole job: N epochs (or steps, if so found). [default: one]")
@click.option("--prices", type=click.Path(path_type=Path), metavar="FILE", help="Your own price table (CSV), instead of ours.")
@click.option("--deadline", type=float, metavar="SECONDS", help="Only instances expected to finish the job in this time.")
@click.option("--budget", type=float, metavar="USD", help="Only instances expected to finish the job for this much.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recommend(
    trace_or_profile: str,
    gpu: str | None,
    gpus: Path | None,
    model: Path | None,
    objective: Objective,
    epochs: int | None,
    prices: Path | None,
    deadline: float | None,
    budget: float | None,
    as_json: bool,
) -> int:
    """Rank cloud instances by the cost or the time of a job, from a trace or a profile of it. Exits 1 if none qualifies.

    With --epochs the first epoch and stalls count as in `epochcast predict --epochs`; without it one epoch after the first is
    ranked.

    \b
    Example: epochcast recommend run.parquet --epochs 90 --deadline 36000
    """
    catalog = load_catalog(gpus)
    source = read_source(trace_or_profile, catalog, gpu)
    profile, catalog = source.profile, with_own(catalog, [source])
    instances, skipped = load_instances(prices, catalog)
    for sentence in (*source.notes, *skipped):
        click.echo(f"epochcast: {sentence}", err=True)
    predictions = Predictor.load(model, catalog).predict(profile)
    jobs = None if epochs is None else {one.gpu: estimate_job(profile, one, epochs) for one in predictions}
    ranked = rank(predictions, instances, jobs=jobs, objective=objective, deadline_s=deadline, budget_usd=budget)
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
        many = f"one {profile.unit}" if epochs is None else f"{epochs} {profile.unit}{'s' * (epochs > 1)}"
        what = many if profile.unit else "ratios only (no epochs found)"
        click.echo(f"{what} of a job seen on {profile.gpu}{simulated}, best {objective} first")
        click.echo(table(_HEADER, [_row(row) for row in ranked]))
        if jobs is not None:
            click.echo(job_text(profile, jobs[ranked[0].instance.gpu]))
    else:
        click.echo("epochcast: no instance meets the deadline and the budget", err=True)
    return 0 if ranked else 1


def _row(row: Recommendation) -> tuple[str, ...]:
    gpu = row.instance.gpu if row.instance.count == 1 else f"1 of {row.instance.count} {row.instance.gpu}"
    time = seconds_text(row.seconds.value) if row.seconds is not None else f"{row.ratio:.2f}x"
    interval = "-" if row.seconds is None else interval_text(row.seconds.low, row.seconds.high)
    usd = "-" if row.usd is None else f"{row.usd.value:.4f}"
    per_hour = f"{row.usd_per_hour:.3f}"
    return row.instance.name, row.instance.cloud, gpu, time, interval, usd, per_hour, row.instance.date.isoformat()
