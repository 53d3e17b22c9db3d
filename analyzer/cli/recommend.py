"""``epochcast recommend``."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ...regressor import Profile, load_catalog
from ...regressor.precision import Precision, likely_precisions
from ..cycles import rates
from ..errors import InputError
from ..instances import load_instances, stale
from ..job_result import answer_job
from ..profiles import read_sources, with_precision
from ..recommendation import Limits, MemoryNeed, Objective, Recommendation, Work
from ..recommendation.memory_fit import GIB
from ..recommendation.skypilot import resources_yaml
from ..recommendations import recommend_job
from . import terminal
from .batch import batch_may_grow_option
from .old_names import spot_option
from .per_step import per_step
from .precision import precision_option
from .quantities import Duration, MemorySize
from .recipe import Recipe, load_predictor, recipe_option
from .recommend_text import job_title, recommend_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@click.command()
@click.argument("traces_or_profiles", nargs=-1, required=True)
@click.option("--gpu", metavar="NAME", help="GPU it was recorded on, if the trace does not name it.")
@click.option("--gpus", type=click.Path(path_type=Path), metavar="FILE", help="TOML file with GPUs of your own.")
@click.option(
    "--model", type=click.Path(path_type=Path), metavar="DIR", help="Model folder written by `epochcast train regressor`."
)
@click.option(
    "--objective", type=click.Choice(["cost", "time"]), default="cost", show_default=True, help="Rank by cost or by time."
)
@click.option("--epochs", type=int, metavar="N", help="Epochs (or cycles, or steps) still to run. [default: one]")
@per_step
@precision_option("the job's matrix products")
@recipe_option
@click.option(
    "--startup",
    type=Duration("minutes"),
    help="Paid time from ordering an instance to the first epoch: minutes, or 300s, 1h.",
)
@click.option(
    "--idle-share", type=float, metavar="SHARE", help="Share of the job's time spent waiting outside its epochs, 0 to 1."
)
@click.option(
    "--checkpoint-share",
    type=float,
    metavar="SHARE",
    help="Share of the job's time spent on checkpoints outside its epochs, 0 to 1.",
)
@click.option(
    "--memory",
    type=MemorySize("GiB"),
    help="Memory the job needs on each GPU: GiB, or 800MiB. [default: the most in the trace]",
)
@click.option(
    "--data-parallel",
    is_flag=True,
    help="Let a job of one GPU use all GPUs of an instance; a job of several always does.",
)
@batch_may_grow_option
@click.option(
    "--machines", type=click.IntRange(1), metavar="N", default=1, show_default=True, help="Machines the job's GPUs are in now."
)
@click.option(
    "--prices", type=click.Path(path_type=Path), metavar="FILE", help="Your own price table (CSV) instead of the built-in one."
)
@spot_option
@click.option("--cloud", "clouds", multiple=True, metavar="NAME", help="Rank only instances of this cloud (repeatable).")
@click.option("--region", "regions", multiple=True, metavar="NAME", help="Rank only instances in this region (repeatable).")
@click.option(
    "--deadline",
    type=Duration("seconds"),
    help="Only instances expected to finish within this time: seconds, or 10h, 90m, 2d.",
)
@click.option("--budget", type=float, metavar="USD", help="Only instances expected to finish the job for at most this.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw time against cost (PNG, SVG, PDF).")
@click.option("--plot-relative", type=click.Path(path_type=Path), metavar="FILE", help="Draw relative time and cost by GPU.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "skypilot"]),
    default="table",
    show_default=True,
    help="Print a table, or a SkyPilot task (YAML).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def recommend(
    traces_or_profiles: tuple[str, ...],
    gpu: str | None,
    gpus: Path | None,
    model: Path | None,
    objective: Objective,
    epochs: int | None,
    samples_per_step: float | None,
    tokens_per_step: float | None,
    precision: Precision | None,
    recipe: Recipe,
    startup: float | None,
    idle_share: float | None,
    checkpoint_share: float | None,
    memory: float | None,
    data_parallel: bool,
    batch_may_grow: bool,
    machines: int,
    prices: Path | None,
    spot: bool,
    clouds: tuple[str, ...],
    regions: tuple[str, ...],
    deadline: float | None,
    budget: float | None,
    plot: Path | None,
    plot_relative: Path | None,
    form: Literal["table", "skypilot"],
    as_json: bool,
) -> int:
    """Rank cloud instances by the cost or the time of a job, from its trace or profile. Exits 1 if none qualifies.

    Several traces, the traces in a folder, or the GPUs in one log count as one job. It is as slow as its slowest GPU and uses
    all GPUs of an instance, even if there are more or fewer than now. With --epochs the first epoch and stalls count as in
    `epochcast predict --epochs`; without it one later epoch is ranked. If the first place is not certain, the answer names the
    cheapest run that would settle it.

    \b
    Example: epochcast recommend run.parquet --epochs 90 --startup 5m --deadline 10h
             epochcast recommend run.parquet --epochs 90 --format skypilot > job.yaml
             epochcast recommend run.gpu0.parquet run.gpu1.parquet --cloud aws
             epochcast recommend runs/ --samples-per-step 256
    """
    if as_json and form == "skypilot":
        raise InputError("--json and --format skypilot are two forms of one answer; give one of them")
    work = _work(epochs, startup, idle_share, checkpoint_share)
    limits = Limits(deadline, budget, regions, clouds, "spot" if spot else "on-demand")
    catalog = load_catalog(gpus)
    read, of_job = read_sources(traces_or_profiles, catalog, gpu)
    instances, notes = load_instances(prices, catalog)
    need = None if memory is None else _memory(memory)
    result = answer_job(
        [with_precision(source, precision) for source in read],
        load_predictor(recipe, model, catalog),
        instances,
        batch_may_grow=batch_may_grow,
        samples_per_step=samples_per_step,
        tokens_per_step=tokens_per_step,
        need=need,
        of_job=of_job,
    )
    found = recommend_job(
        result,
        instances,
        machines=machines,
        data_parallel=data_parallel,
        work=work,
        need=need,
        limits=limits,
        objective=objective,
    )
    source, rate, about = result.slowest, result.throughput, result.notes
    profile, ranking, decision, need = source.profile, found.ranking, found.decision, found.need
    old = stale(found.decisive, date.today())
    drawn = [
        *ranking.recommendations,
        *(one.recommendation for one in ranking.left_out if one.recommendation),
    ]
    if plot is not None and drawn:
        from ..figures import cost_figure

        _draw(cost_figure(drawn, deadline_s=deadline, budget_usd=budget), plot, profile)
    if plot_relative is not None and ranking.recommendations:
        from ..figures import relative_figure

        _draw(relative_figure(ranking.recommendations, profile.gpu), plot_relative, profile)
    for sentence in (*about, *notes, *([old] if old else [])):
        terminal.note(sentence)

    def shown(row: Recommendation) -> dict[str, Any]:
        return row.to_json() | rates(rate, row.prediction.ratio)

    if as_json:
        answer = {
            "recipe": recipe,
            "source": profile.gpu,
            "simulated": any(each.profile.simulated for each in result.sources),
            "gpus": found.gpus,
            "epochs": epochs,
            "unit": profile.unit,
            "cycle": None if source.cycle is None else asdict(source.cycle),
            **rates(rate),
            "precision": likely_precisions(profile, source.gpu)[0],
            "objective": objective,
            "market": limits.market,
            "memory_bytes": None if need is None else need.bytes,
            "memory_reserved": None if need is None else need.reserved,
            "cheapest": None if ranking.cheapest is None else shown(ranking.cheapest),
            "fastest": None if ranking.fastest is None else shown(ranking.fastest),
            "recommendations": [shown(row) for row in ranking.recommendations],
            "left_out": [one.to_json() for one in ranking.left_out],
            "decision": None if decision is None else decision.to_json(),
            "verdict": found.verdict.to_json(),
            "notes": [*found.notes, *about],
        }
        click.echo(json.dumps(answer, indent=2))
    elif form == "skypilot" and decision is not None:
        # What may be as good is what is worth falling back on where the first one cannot be had.
        candidates = [decision.first, *(rival.recommendation for rival in decision.rivals)]
        click.echo(resources_yaml(candidates, job_title(source, epochs, found.gpus)), nl=False)
    else:
        terminal.say(recommend_text(source, found, epochs, objective, rate), err=not ranking.recommendations)
    return 0 if ranking.recommendations else 1


def _work(
    epochs: int | None, startup_min: float | None, idle_share: float | None, checkpoint_share: float | None
) -> Work | None:
    if epochs is not None:
        return Work(epochs, idle_share or 0.0, checkpoint_share or 0.0, 60 * (startup_min or 0.0))
    for option, value in (("--startup", startup_min), ("--idle-share", idle_share), ("--checkpoint-share", checkpoint_share)):
        if value is not None:
            raise InputError(f"{option} {value:g} is of a whole job; say how many epochs it has: --epochs N")
    return None


def _draw(figure: Figure, path: Path, profile: Profile) -> None:
    from ..figures import save_figure

    if profile.simulated:
        figure.suptitle("from simulated telemetry", x=0.01, ha="left", fontsize=10)
    save_figure(figure, path)


def _memory(gib: float) -> MemoryNeed:
    if not 0 < gib < 1e6:
        raise InputError(f"--memory is {gib:g}; give the GiB of GPU memory that the job needs, above 0 and below a million")
    return MemoryNeed(gib * GIB)
