"""``epochcast predict-model distributed``: one job, all jobs on a number of GPUs, or precisions beside each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from ...backends.distributed.question import Question, answer_json
from ...backends.distributed.timeline import write_chrome_trace
from ...errors import InputError
from ...instances import Instance, load_instances
from .. import progress, terminal
from ..distributed_text import prediction_text
from ..shared_options import json_option, prices_option
from .distributed_comparison import compare
from .distributed_options import asked, check_device, distributed_options, one_of
from .distributed_search import search_all

_FILE = click.Path(path_type=Path)


@click.command()
@distributed_options
@prices_option
@click.option(
    "--iterations", type=click.IntRange(min=1), metavar="N", help="Iterations in the whole training; adds its time and cost."
)
@click.option("--timeline", type=_FILE, metavar="FILE", help="Write one iteration as a Chrome trace (JSON, for Perfetto).")
@click.option(
    "--search",
    is_flag=True,
    help="Rank all parallel degrees, micro-batches and precisions that fit; options you give stay fixed.",
)
@click.option(
    "--gpus-total",
    type=click.IntRange(min=1),
    multiple=True,
    metavar="N",
    help="Number of GPUs for --search (repeatable) or --compare.",
)
@click.option(
    "--budget",
    type=float,
    metavar="USD",
    help="Only configurations that train --iterations N for at most this (with --search).",
)
@click.option(
    "--rank-by",
    type=click.Choice(["time", "cost"]),
    help="Rank by time or cost (with --search). [default: time; cost with several --gpu]",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="K",
    help="Number of configurations to list (with --search).",
)
@click.option("--compare", "comparing", is_flag=True, help="Compare times by precision and parallelism (Fig. 1 of the paper).")
@click.option(
    "--strategies",
    metavar="'D,T,P D,T,P …'",
    help="Data, tensor and pipeline degrees for --compare. [default: all of --gpus-total]",
)
@click.option("--plot", type=_FILE, metavar="FILE", help="Draw the comparison of --compare (PNG, SVG, PDF).")
@json_option
def distributed(
    prices: Path | None,
    iterations: int | None,
    timeline: Path | None,
    search: bool,
    gpus_total: tuple[int, ...],
    budget: float | None,
    rank_by: Literal["time", "cost"] | None,
    top: int,
    comparing: bool,
    strategies: str | None,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Predict the time of one training iteration on several GPUs, with its parts, its memory and its cost.

    \b
    Example: epochcast predict-model distributed --model LLaMA-3.1-8B \\
                 --gpu "A100 SXM4 80GB" --dp 8 --tp 4 --pp 2 --global-batch 256 \\
                 --precision amp-bf16 --recomputation full \\
                 --timeline iteration.json
             epochcast predict-model distributed --model GPT-3-175B \\
                 --gpu "A100 SXM4 80GB" --global-batch 1536 --search \\
                 --gpus-total 512
             epochcast predict-model distributed --model LLaMA-3.1-8B \\
                 --gpu "H100 SXM5" --global-batch 8 --compare \\
                 --strategies "4,2,1 2,4,1 1,8,1 1,2,4" --plot precisions.png
    """
    others = {"--search": search, "--compare": comparing, "--timeline": timeline is not None, "--prices": prices is not None}
    check_device(options, others)
    _check(search, comparing, gpus_total, budget, strategies, plot, timeline)
    question = asked(options)
    instances, notes = load_instances(prices, question.catalog)
    for note in notes:
        terminal.note(note)
    if search:
        return search_all(question, instances, gpus_total, budget, iterations, rank_by, top, as_json)
    if comparing:
        return compare(question, gpus_total, strategies, plot, as_json)
    answer = _one(question, instances, iterations, timeline)
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        terminal.say(prediction_text(answer))
        terminal.notes(answer["notes"])
    return 0


def _check(
    search: bool,
    comparing: bool,
    gpus_total: Sequence[int],
    budget: float | None,
    strategies: str | None,
    plot: Path | None,
    timeline: Path | None,
) -> None:
    """Raise InputError for options that do not belong together."""
    if search and comparing:
        raise InputError("--search and --compare are two answers; ask for one of them")
    if gpus_total and not (search or comparing):
        raise InputError("--gpus-total belongs to --search and --compare; one job has --dp x --tp x --pp GPUs")
    if budget is not None and not search:
        raise InputError("--budget limits a --search; add it or leave the budget out")
    if (strategies is not None or plot is not None) and not comparing:
        raise InputError("--strategies and --plot belong to --compare; add it or leave them out")
    if timeline is not None and (search or comparing):
        raise InputError("--timeline is of one job; leave out --search and --compare")


def _one(question: Question, instances: Sequence[Instance], iterations: int | None, timeline: Path | None) -> dict[str, Any]:
    """The answer on one job, as JSON has it."""
    gpu = one_of(question.gpus, "--gpu", "--search")
    one_of(question.options["precisions"], "--precision", "--compare and --search")
    estimated: Sequence[str] = ()
    if question.options["operators"] == "profile":
        estimated = question.predictor.measure(gpu, question.job())
        progress.clear()
    answer = answer_json(question, instances, iterations)
    if estimated:
        answer["assumptions"].append(
            f"operators that cannot be run alone take their bytes at the bandwidth here: {', '.join(estimated)}"
        )
    if question.options["device"] == "cpu":
        from ...backends.distributed.this_machine import of_this_machine

        return of_this_machine(answer)
    if timeline is not None:
        predictor = question.predictor
        if predictor.recipe != "default":
            raise InputError(f"--timeline shows the schedule of the recipe default, not of {predictor.recipe}; leave one out")
        write_chrome_trace(timeline, predictor.timeline(gpu, question.job()), f"{question.name} on {gpu.name}")
    return answer
