"""``epochcast simulate-packing``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.core import ParameterSource

from epochcast.analyzer.backends.occupancy.packing.experiment import (
    BASELINE,
    Ordering,
    PolicySummary,
    compare,
    orderings,
    summarise,
)
from epochcast.analyzer.backends.occupancy.packing.job_tables import JobKinds, read_jobs, read_kinds
from epochcast.analyzer.backends.occupancy.packing.jobs import JobKind, PackedJob, StreamShape, streams
from epochcast.analyzer.backends.occupancy.packing.policies import POLICIES, SLOWDOWNS
from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.quantities import MemorySize
from epochcast.analyzer.cli.shared_options import gpus_option, json_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plain_json import plain_json
from epochcast.analyzer.tables import seconds_text, table
from epochcast.regressor import Gpu, load_catalog

_PATH = click.Path(path_type=Path)
_OF_STREAMS = ("runs", "load", "seed")


@click.command("simulate-packing")
@click.option("--jobs", type=_PATH, metavar="CSV", help="Jobs to pack, one per row (columns above).")
@click.option("--configurations", type=_PATH, metavar="CSV", help="Trainings to draw random streams of jobs from.")
@click.option(
    "--gpus-total", type=click.IntRange(min=1), metavar="N", default=4, show_default=True, help="Number of GPUs to pack onto."
)
@click.option("--gpu", metavar="NAME", help="GPU to pack onto; --configurations must be measured on it. [default: theirs]")
@click.option(
    "--memory",
    type=MemorySize("bytes", above=0),
    help="Memory of each GPU: bytes, or 24GiB. [default: that of --gpu]",
)
@gpus_option
@click.option(
    "--slowdown",
    "curves",
    multiple=True,
    type=click.Choice(list(SLOWDOWNS)),
    help="Model of what sharing a GPU costs (repeatable). [default: all]",
)
@click.option(
    "--runs", type=click.IntRange(min=1), metavar="N", default=100, show_default=True, help="Number of random streams to draw."
)
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SHARE",
    help="Arrival rate (Poisson) as a share of what one job per GPU can serve. [default: all arrive at once]",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of the streams.")
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw makespan and NVML utilisation (PNG, SVG, PDF).")
@json_option
def simulate_packing(
    jobs: Path | None,
    configurations: Path | None,
    gpus_total: int,
    gpu: str | None,
    memory: float | None,
    gpus: Path | None,
    curves: tuple[str, ...],
    runs: int,
    load: float | None,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Simulate packing jobs on shared GPUs by predicted occupancy, and compare it with other policies.

    Policies are slot (one job per GPU), nvml-util (at most 100 % of NVML utilisation on a GPU) and occu (at most 100 % of
    predicted occupancy). Gains are relative to slot. Sharing slows jobs down by one of these models: none; fig7, by cumulative
    occupancy as in the DNN-occu paper (shape assumed from its text); utilisation, jobs take turns.

    Give --jobs or --configurations. A table of jobs has the columns name, arrival_s, duration_s (alone on a GPU), occupancy and
    nvml_utilisation (0 to 1), and memory_bytes; predicted_occupancy and predicted_memory_bytes are optional. A table of
    configurations holds measured trainings (as GPUMemNet's do), or has the columns key, occupancy,
    nvml_utilisation and memory_bytes.

    \b
    Example: epochcast simulate-packing --configurations trainings.csv
             epochcast simulate-packing --jobs queue.csv --gpus-total 8 \\
                 --memory 80GB --slowdown fig7 --plot packing.png
    """
    catalog = load_catalog(gpus)
    board = None if gpu is None else catalog.resolve(gpu)
    drawn: Sequence[Sequence[PackedJob]]
    source: dict[str, Any] = {}
    if jobs is not None and configurations is None:
        _refuse_of_streams()
        drawn = [read_jobs(jobs)]
        memory = _memory(memory, board)
    elif configurations is not None and jobs is None:
        known = read_kinds(configurations, catalog, board)
        memory = _memory(memory, board or known.gpu)
        kinds, source = _those_that_fit(known, memory)
        rate = None if load is None else load * gpus_total / StreamShape.mean_duration
        drawn = streams(kinds, StreamShape(arrival_rate=rate), runs, seed)
    else:
        raise InputError("give exactly one of --jobs CSV and --configurations CSV")
    slowdowns = {name: SLOWDOWNS[name] for name in dict.fromkeys(curves or SLOWDOWNS)}
    rows = compare(drawn, gpus_total, memory, POLICIES, slowdowns, progress.show)
    progress.clear()
    summaries, order = summarise(rows), orderings(rows)
    answer = {
        "gpus": gpus_total,
        "memory": memory,
        "drawn_from": source,
        "runs": len(drawn),
        "jobs": len(drawn[0]),
        "seed": seed,
        "results": [asdict(summary) for summary in summaries],
        "ordering": {curve: asdict(ordering) for curve, ordering in order.items()},
    }
    if plot is not None:
        from epochcast.analyzer.charts import packing_figure, save_figure

        save_figure(packing_figure(summaries), plot)
    if as_json:
        click.echo(plain_json(answer))
    else:
        terminal.say(_text(answer, summaries, order))
    return 0


def _refuse_of_streams() -> None:
    """Raise InputError for an option that changes nothing about a table of jobs."""
    context = click.get_current_context()
    for option in context.command.params:
        was_given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if was_given and option.name in _OF_STREAMS:
            raise InputError(f"{option.opts[0]} applies to streams drawn from --configurations; leave it out with --jobs")


def _memory(memory: float | None, gpu: Gpu | None) -> float:
    """Bytes of each GPU."""
    if memory is None and gpu is None:
        raise InputError("the memory of the GPUs is not known; give --gpu NAME or --memory BYTES")
    return memory if memory is not None else float(gpu.memory if gpu else 0)


def _those_that_fit(known: JobKinds, memory: float) -> tuple[Sequence[JobKind], dict[str, Any]]:
    """Kinds that one GPU holds, and what they are."""
    kinds = [kind for kind in known.kinds if kind.memory <= memory]
    if not kinds:
        least = min(kind.memory for kind in known.kinds)
        raise InputError(f"every configuration needs {least:.4g} bytes or more, but a GPU has {memory:.4g}; give larger GPUs")
    left_out = {"not_measured": known.left_out, "too_large": len(known.kinds) - len(kinds)}
    return kinds, {"configurations": len(kinds), "gpu": known.gpu.name if known.gpu else None, "left_out": left_out}


def _text(answer: Mapping[str, Any], summaries: Sequence[PolicySummary], order: Mapping[str, Ordering]) -> str:
    once = answer["runs"] == 1
    what = f"{answer['jobs']} jobs on {answer['gpus']} GPUs of {answer['memory'] / 2**30:.4g} GiB"
    lines = [what if once else f"{what}, means of {answer['runs']} runs (± half of the 95 % interval)"]
    if source := answer["drawn_from"]:
        measured = f" measured on {source['gpu']}" if source["gpu"] else ""
        left_out = sum(source["left_out"].values())
        without = f" ({left_out} left out: crashed, not measured, or too large)" if left_out else ""
        lines.append(f"drawn from {source['configurations']} configurations{measured}{without}")
    for curve in dict.fromkeys(summary.slowdown for summary in summaries):
        own = [summary for summary in summaries if summary.slowdown == curve]
        header = ("policy", "makespan", "gain", "NVML", "gain", "occupancy", "JCT / alone", "run / alone", "OOM", "best")
        lines += ["", f"slowdown: {curve}", table(header, [_row(summary, once) for summary in own])]
        lines.append(_ordering(order[curve], once))
    return "\n".join(lines)


def _row(summary: PolicySummary, once: bool) -> list[str]:
    makespan, figures = summary.figures["makespan"], summary.figures
    half = "" if once else f" ± {seconds_text(makespan.high - makespan.mean)}"
    gains = [
        "" if summary.policy == BASELINE else f"{100 * gain:+.1f} %" if np.isfinite(gain) else "-"
        for gain in (summary.makespan_gain, summary.utilisation_gain)
    ]
    return [
        summary.policy,
        seconds_text(makespan.mean) + half,
        gains[0],
        f"{100 * figures['nvml_utilisation'].mean:.1f} %",
        gains[1],
        f"{100 * figures['occupancy'].mean:.1f} %",
        f"{figures['jct_slowdown'].mean:.2f}",
        f"{figures['run_slowdown'].mean:.2f}",
        f"{figures['failures'].mean:g}",
        ("yes" if summary.won else "") if once else f"{100 * summary.won:.0f} %",
    ]


def _ordering(order: Ordering, once: bool) -> str:
    """Whether the paper's Table VI is found again."""
    share = "" if once else f", in {100 * order.makespan_runs:.0f} % of the runs"
    return (
        f"the paper's order of makespans (occu < nvml-util < slot) {'holds' if order.makespan else 'does not hold'}{share}; "
        f"occu's NVML utilisation is {'' if order.utilisation else 'not '}the highest of the three"
    )
