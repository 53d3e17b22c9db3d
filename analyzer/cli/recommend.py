"""``epochcast recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.backend_command import options_of, question_of
from epochcast.analyzer.cli.shared_options import (
    gpus_option,
    json_option,
    known_epochs_options,
    prices_option,
)
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.job import answer_job, job_json
from epochcast.analyzer.jobs.predict import resolve_targets
from epochcast.analyzer.jobs.prices import load_instances, load_inventory
from epochcast.analyzer.jobs.questions import RECOMMENDATION_OF_FILES, SOURCE, JobQuestion
from epochcast.analyzer.jobs.rank import time_of
from epochcast.analyzer.jobs.sources import add_description, read_sources
from epochcast.analyzer.jobs.text import job_title, recommendation_text, target_lines
from epochcast.analyzer.jobs.verdict import may_be_better
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.regressor import load_catalog
from epochcast.regressor.pipelines import load_predictor


@click.command()
@click.argument("traces_or_profiles", nargs=-1, required=True)
@gpus_option
@known_epochs_options("known")
@prices_option
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw time against cost (PNG, SVG, PDF).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "skypilot"]),
    default="table",
    show_default=True,
    help="Print a table, or a SkyPilot task (YAML).",
)
@click.option(
    "--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Rank what is free: CSV of instance, region, free."
)
@click.option("--all", "everything", is_flag=True, help="Print every instance and region, and all notes.")
@json_option
def recommend(
    traces_or_profiles: tuple[str, ...],
    gpus: Path | None,
    prices: Path | None,
    plot: Path | None,
    form: Literal["table", "skypilot"],
    inventory: Path | None,
    everything: bool,
    as_json: bool,
    known: KnownEpochs | None,
    **given: Any,
) -> int:
    """Rank cloud instances by a job's cost or time, from its trace or profile. Exits 1 if none qualifies.

    Several traces, a folder of traces, or the GPUs in one log count as one job. A job is as slow as its slowest GPU and uses
    all GPUs of an instance, even if there are more or fewer than now. The answer is for the job in the log, or --epochs of it.
    The first line says what to do: it names the fastest of what costs the least, and a move only if that saves more than
    switching costs.

    \b
    Example: epochcast recommend run.parquet --epochs 90 --deadline 10h
             epochcast recommend run.parquet --format skypilot > job.yaml
             epochcast recommend run.gpu0.parquet run.gpu1.parquet --cloud aws
             epochcast recommend runs/ --target H100 --target L40S
             epochcast recommend run.csv --prices mine.csv --price-now 0.35
    """
    if as_json and form == "skypilot":
        raise InputError("--json and --format skypilot exclude each other; give one of them")
    question = question_of(JobQuestion, given)
    catalog, pipeline = load_catalog(gpus), question.pipeline or "default"
    gpu, number = catalog.split_count(question.gpu)
    read, of_job = read_sources(traces_or_profiles, catalog, gpu, pipeline, known)
    instances, of_prices = load_instances(prices, catalog)
    instances, free = (instances, None) if inventory is None else load_inventory(inventory, instances)
    job = answer_job(
        [add_description(source, question) for source in read],
        load_predictor(pipeline, question.model, catalog),
        instances,
        question,
        recommend=True,
        gpus=number,
        free=free,
        of_job=[*of_job, *of_prices],
    )
    recommended = job.recommendation
    assert recommended is not None
    rows = recommended.placements
    drawn = [*rows, *(row.placement for row in recommended.left_out if row.placement)]
    if plot is not None and drawn:
        from epochcast.analyzer.charts import cost_figure, save_figure

        limits = recommended.limits
        save_figure(
            cost_figure(drawn, deadline_s=limits.deadline_s, budget_usd=limits.budget_usd), plot, simulated=job.simulated
        )
    if as_json:
        click.echo(job_json(job, indent=2).decode())
        return job.status
    if form == "skypilot" and rows:
        from epochcast.analyzer.jobs.skypilot import resources_yaml

        # What costs about as much is worth falling back on where the best cannot be had.
        best = recommended.verdict.best or rows[0]
        if not best.instance.cloud:
            raise InputError(f"there is nothing to launch: {recommended.verdict.text}")
        slowest_s = question.at_most_slower * time_of(best)
        others = [row for row in rows if row.hardware != best.hardware and time_of(row) <= slowest_s]
        others = [row for row in others if may_be_better(row, best, recommended.objective)]
        click.echo(resources_yaml([best, *others], job_title(job), catalog), nl=False)
    elif question.targets:
        terminal.say(target_lines(job, resolve_targets(catalog, question.targets)[0]))
    else:
        terminal.say(recommendation_text(job, everything=everything), err=not rows)
    if form == "skypilot":
        terminal.notes(job.notes)
    return job.status


# After the traces, so that the help begins with what says most.
recommend.params[1:1] = options_of(JobQuestion, *SOURCE, *RECOMMENDATION_OF_FILES)
