"""``epochcast recommend``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.backend_command import options_of
from epochcast.analyzer.cli.quantities import Duration, MemorySize
from epochcast.analyzer.cli.shared_options import (
    cloud_option,
    gpus_option,
    json_option,
    known_epochs_options,
    objective_option,
    prices_option,
    region_option,
    spot_option,
)
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.job import JobQuestion, answer_job, job_json
from epochcast.analyzer.jobs.memory import GIB, MemoryNeed
from epochcast.analyzer.jobs.predict import resolve_targets
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.prices.inventory import load_inventory
from epochcast.analyzer.jobs.questions import PredictionQuestion
from epochcast.analyzer.jobs.rank import JobLimits, Objective, time_of
from epochcast.analyzer.jobs.recommend import Renting
from epochcast.analyzer.jobs.recommendation_text import job_title, recommendation_text, target_lines
from epochcast.analyzer.jobs.skypilot import resources_yaml
from epochcast.analyzer.jobs.sources import JobDescription, add_description, read_sources
from epochcast.analyzer.jobs.verdict import AT_MOST_SLOWER, may_be_better
from epochcast.analyzer.jobs.whole_job import Work
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.regressor import load_catalog
from epochcast.regressor.job_types import JobType
from epochcast.regressor.pipelines import Pipeline, load_predictor
from epochcast.regressor.precision import Precision


@click.command()
@click.argument("traces_or_profiles", nargs=-1, required=True)
@gpus_option
@objective_option
@click.option("--epochs", type=int, metavar="N", help="Epochs (or cycles, or steps) still to run. [default: one]")
@click.option(
    "--startup",
    type=Duration("minutes"),
    help="Paid time from launching an instance to the first epoch: minutes, or 300s, 1h.",
)
@click.option(
    "--memory",
    type=MemorySize("GiB"),
    help="Memory that the job needs on each GPU: GiB, or 800MiB. [default: the most in the trace]",
)
@click.option(
    "--data-parallel",
    is_flag=True,
    help="Let a one-GPU job use all GPUs of an instance; multi-GPU jobs always do.",
)
@click.option(
    "--machines",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    show_default=True,
    help="Machines that hold the job's GPUs now.",
)
@known_epochs_options("known")
@prices_option
@spot_option
@cloud_option
@region_option
@click.option(
    "--deadline",
    type=Duration("seconds"),
    help="Only instances expected to finish within this time: seconds, or 10h, 90m, 2d.",
)
@click.option("--budget", type=float, metavar="USD", help="Only instances expected to finish the job for at most this.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw time against cost (PNG, SVG, PDF).")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "skypilot"]),
    default="table",
    show_default=True,
    help="Print a table, or a SkyPilot task (YAML).",
)
@click.option("--target", "targets", multiple=True, metavar="GPU", help="Answer for this GPU in one line (repeatable).")
@click.option(
    "--at-most-slower",
    type=float,
    metavar="FACTOR",
    default=AT_MOST_SLOWER,
    show_default=True,
    help="Propose no move that takes more than this times the present time.",
)
@click.option(
    "--price-now", type=float, metavar="USD", help="What an hour of all that the job runs on now costs. [default: assumed]"
)
@click.option(
    "--switch-cost", type=float, metavar="USD", help="What a move costs. [default: half an hour of what it runs on now]"
)
@click.option(
    "--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Rank what is free: CSV of instance, region, free."
)
@click.option("--all", "everything", is_flag=True, help="Print every instance and region, and all notes.")
@json_option
def recommend(
    traces_or_profiles: tuple[str, ...],
    gpu: str | None,
    gpus: Path | None,
    model: Path | None,
    objective: Objective,
    epochs: int | None,
    samples_per_step: float | None,
    tokens_per_step: float | None,
    carbon_intensity: float | None,
    precision: Precision | None,
    job_type: JobType | None,
    family: str | None,
    inference: bool | None,
    pipeline: Pipeline | None,
    startup: float | None,
    memory: float | None,
    data_parallel: bool,
    batch_may_grow: bool | None,
    machines: int,
    prices: Path | None,
    spot: bool,
    clouds: tuple[str, ...],
    regions: tuple[str, ...],
    deadline: float | None,
    budget: float | None,
    plot: Path | None,
    form: Literal["table", "skypilot"],
    targets: tuple[str, ...],
    at_most_slower: float,
    price_now: float | None,
    switch_cost: float | None,
    inventory: Path | None,
    everything: bool,
    as_json: bool,
    known: KnownEpochs | None,
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
    if epochs is None and startup is not None:
        raise InputError(f"--startup {startup:g} applies to a whole job; give its number of epochs: --epochs N")
    work = None if epochs is None else Work(epochs, 60 * (startup or 0.0))
    limits = JobLimits(deadline, budget, regions, clouds, "spot" if spot else "on-demand")
    catalog = load_catalog(gpus)
    gpu, number = catalog.split_count(gpu)
    read, of_job = read_sources(traces_or_profiles, catalog, gpu, pipeline or "default", known)
    instances, of_prices = load_instances(prices, catalog)
    instances, free = (instances, None) if inventory is None else load_inventory(inventory, instances)
    names, of_names = resolve_targets(catalog, targets)
    job = answer_job(
        [add_description(source, JobDescription(precision, job_type, family, bool(inference))) for source in read],
        load_predictor(pipeline or "default", model, catalog),
        instances,
        JobQuestion(
            work=work,
            gpus=number,
            batch_may_grow=bool(batch_may_grow),
            samples_per_step=samples_per_step,
            tokens_per_step=tokens_per_step,
            carbon_intensity=carbon_intensity,
            need=None if memory is None else _memory(memory),
            renting=Renting(
                objective,
                limits,
                machines,
                data_parallel,
                usd_per_hour_now=price_now,
                at_most_slower=at_most_slower,
                switch_usd=switch_cost,
                targets=tuple(names),
                free=free,
            ),
        ),
        of_job=[*of_job, *of_prices, *of_names],
    )
    recommended = job.recommendation
    assert recommended is not None
    rows = recommended.placements
    drawn = [*rows, *(row.placement for row in recommended.left_out if row.placement)]
    if plot is not None and drawn:
        from epochcast.analyzer.charts import cost_figure, save_figure

        save_figure(cost_figure(drawn, deadline_s=deadline, budget_usd=budget), plot, simulated=job.simulated)
    if as_json:
        click.echo(job_json(job, indent=2).decode())
        return job.status
    if form == "skypilot" and rows:
        # What costs about as much is worth falling back on where the best cannot be had.
        best = recommended.verdict.best or rows[0]
        if not best.instance.cloud:
            raise InputError(f"there is nothing to launch: {recommended.verdict.text}")
        others = [row for row in rows if row.hardware != best.hardware and time_of(row) <= at_most_slower * time_of(best)]
        others = [row for row in others if may_be_better(row, best, objective)]
        click.echo(resources_yaml([best, *others], job_title(job), catalog), nl=False)
    elif names:
        terminal.say(target_lines(job, names))
    else:
        terminal.say(recommendation_text(job, everything=everything), err=not rows)
    if form == "skypilot":
        terminal.notes(job.notes)
    return job.status


# Those that it shares with `epochcast predict`, after the traces.
recommend.params[1:1] = options_of(
    PredictionQuestion,
    *("gpu", "model", "pipeline", "precision", "job_type", "family", "inference"),
    *("samples_per_step", "tokens_per_step", "batch_may_grow"),
)
recommend.params += options_of(PredictionQuestion, "carbon_intensity")


def _memory(gib: float) -> MemoryNeed:
    if not 0 < gib < 1e6:
        raise InputError(f"--memory is {gib:g}; give the GiB of GPU memory that the job needs, above 0 and below a million")
    return MemoryNeed(gib * GIB)
