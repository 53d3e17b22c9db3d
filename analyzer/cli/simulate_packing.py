"""``epochcast simulate-packing``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from click.core import ParameterSource

from ...regressor import Gpu, load_catalog
from ..backends.occupancy.packing.experiment import Cluster, Ordering, Summary, chosen, compare, orderings, streams, summarise
from ..backends.occupancy.packing.job import Job, read_jobs
from ..backends.occupancy.packing.job_kinds import JobKind, JobKinds, job_kinds
from ..backends.occupancy.packing.job_stream import StreamShape, with_prediction_error
from ..backends.occupancy.packing.policies import PAPER, POLICIES
from ..backends.occupancy.packing.slowdown import ASSUMED, MeasuredSlowdown, Slowdown
from ..backends.occupancy.points import LABELS
from ..errors import InputError
from ..gpu_scripts.occupancy_bench import read_colocation
from ..plain_json import plain_json
from . import progress, terminal
from .quantities import MemorySize
from .shared_options import gpus_option, json_option
from .tables import seconds_text, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PATH = click.Path(path_type=Path)
_MEASURED = "measured"


@click.command("simulate-packing")
@click.option("--jobs", type=_PATH, metavar="CSV", help="Jobs to pack, one per row (columns above).")
@click.option(
    "--configurations", "table_path", type=_PATH, metavar="CSV", help="Configurations to draw random streams of jobs from."
)
@click.option(
    "--occupancy",
    type=click.Choice(["mean", "time_mean"]),
    default="mean",
    show_default=True,
    help="Mean over kernel launches, or weighted by their duration (with --configurations).",
)
@click.option(
    "--labels", type=click.Choice(LABELS), help="Use only configurations with these labels, if there are several kinds."
)
@click.option(
    "--gpus-total", type=click.IntRange(min=1), metavar="N", default=4, show_default=True, help="Number of GPUs to pack onto."
)
@click.option("--gpu", metavar="NAME", help="GPU to pack onto: sets the memory, and selects configurations.")
@click.option(
    "--memory",
    type=MemorySize("bytes", above=0),
    help="Memory of each GPU: bytes, or 24GiB. [default: that of --gpu]",
)
@gpus_option
@click.option(
    "--policy",
    "policies",
    multiple=True,
    type=click.Choice(list(POLICIES)),
    help="Packing policy to simulate (repeatable). [default: slot, nvml-util, occu]",
)
@click.option(
    "--slowdown",
    "curves",
    multiple=True,
    type=click.Choice([*ASSUMED, _MEASURED]),
    help="Model of what sharing a GPU costs (repeatable). [default: all]",
)
@click.option("--colocation", type=_PATH, metavar="CSV", help="Pairs of jobs measured side by side, for --slowdown measured.")
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    metavar="N",
    default=100,
    show_default=True,
    help="Number of random streams (or errors) to draw.",
)
@click.option(
    "--stream-jobs", type=click.IntRange(min=1), metavar="N", default=40, show_default=True, help="Number of jobs in a stream."
)
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SHARE",
    help="Arrival rate (Poisson) as a share of what one job per GPU can serve. [default: all arrive at once]",
)
@click.option(
    "--error",
    type=click.FloatRange(0, 5),
    metavar="RATIO",
    default=0.0,
    help="Mean relative error of the predicted occupancy, 0 to 5. [default: 0]",
)
@click.option(
    "--seed", type=click.IntRange(min=0), metavar="N", default=0, show_default=True, help="Seed of the streams and the errors."
)
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw makespan and NVML utilisation (PNG, SVG, PDF).")
@json_option
def simulate_packing(
    jobs: Path | None,
    table_path: Path | None,
    occupancy: str,
    labels: str | None,
    gpus_total: int,
    gpu: str | None,
    memory: float | None,
    gpus: Path | None,
    policies: tuple[str, ...],
    curves: tuple[str, ...],
    colocation: Path | None,
    runs: int,
    stream_jobs: int,
    load: float | None,
    error: float,
    seed: int,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Simulate packing jobs on shared GPUs by predicted occupancy, and compare it with other policies.

    Give --jobs or --configurations. A table of jobs has the columns name, arrival_s, duration_s (alone on a GPU), occupancy and
    nvml_utilisation (0 to 1), and memory_bytes; predicted_occupancy and predicted_memory_bytes are optional. A table of
    configurations is one that `epochcast train occupancy` reads, or has the columns key, occupancy, nvml_utilisation and
    memory_bytes.

    Sharing slows jobs down by one of these models: none; fig7, by cumulative occupancy as in the DNN-occu paper (shape assumed
    from its text); utilisation, jobs take turns; measured, by --colocation. Gains are relative to one job per GPU.

    \b
    Example: epochcast simulate-packing --configurations occupancy.csv --gpu P40
             epochcast simulate-packing --jobs queue.csv --gpus-total 8 \\
                 --memory 80GB --policy occu --policy interference
             epochcast simulate-packing --configurations occupancy.csv \\
                 --gpu H200 --error 0.2 --plot packing.png
    """
    slowdowns = _slowdowns(curves, colocation)
    catalog = load_catalog(gpus)
    named = None if gpu is None else catalog.resolve(gpu)
    drawn: Sequence[Sequence[Job]]
    told: dict[str, Any] = {}
    if jobs is not None and table_path is None:
        _refuse_of_streams()
        drawn = _errors_of(read_jobs(jobs), runs if error else 1, seed, error)
        memory = _memory(memory, named)
    elif table_path is not None and jobs is None:
        table = job_kinds(table_path, catalog, named, occupancy, labels)
        memory = _memory(memory, catalog[table.gpu] if table.gpu and not named else named)
        kinds, told = _those_that_fit(table, memory)
        if _MEASURED in slowdowns and (table.labels == "ncu" or occupancy != "mean"):
            by = "ncu's counters" if table.labels == "ncu" else "time"
            terminal.note(
                "the slowdowns of --colocation were measured by mean launch-config occupancy, the jobs' occupancies "
                f"are by {by}: they are not the same quantity"
            )
        shape = StreamShape(stream_jobs)
        rate = None if load is None else load * gpus_total / shape.mean_duration
        drawn = streams(kinds, replace(shape, arrival_rate=rate), runs, seed, error)
    else:
        raise InputError("there is nothing to pack, or too much; give either --jobs CSV or --configurations CSV")
    rows = compare(drawn, Cluster(gpus_total, memory), chosen(policies or PAPER), slowdowns, progress.show)
    progress.clear()
    summaries, order = summarise(rows), orderings(rows)
    answer = {
        "gpus": gpus_total,
        "memory": memory,
        "drawn_from": told,
        "runs": len(drawn),
        "jobs": len(drawn[0]),
        "error": error,
        "seed": seed,
        "results": [asdict(one) for one in summaries],
        "ordering": {curve: asdict(one) for curve, one in order.items()},
    }
    if plot is not None:
        from ..figures import save_figure

        save_figure(_figure(summaries), plot)
    terminal.say(plain_json(answer) if as_json else _text(answer, summaries, order), as_is=as_json)
    return 0


def _refuse_of_streams() -> None:
    """Raise InputError for an option that changes nothing about a table of jobs."""
    context = click.get_current_context()
    for option in context.command.params:
        given = context.get_parameter_source(str(option.name)) is ParameterSource.COMMANDLINE
        if given and option.name in ("occupancy", "labels", "stream_jobs", "load"):
            raise InputError(f"{option.opts[0]} is about streams drawn from --configurations; with --jobs leave it out")


def _memory(memory: float | None, gpu: Gpu | None) -> float:
    """Bytes of each GPU."""
    if memory is None and gpu is None:
        raise InputError("the memory of the GPUs is not known; give --gpu NAME or --memory BYTES")
    return memory if memory is not None else float(gpu.memory if gpu else 0)


def _those_that_fit(table: JobKinds, memory: float) -> tuple[Sequence[JobKind], dict[str, Any]]:
    """Kinds that one GPU holds, and what they are."""
    kinds = [kind for kind in table.kinds if kind.memory <= memory]
    if not kinds:
        least = min(kind.memory for kind in table.kinds)
        raise InputError(f"every configuration needs {least:.4g} bytes or more and a GPU has {memory:.4g}; give larger GPUs")
    left_out = {"nvml_utilisation_or_memory_unknown": table.left_out, "too_large": len(table.kinds) - len(kinds)}
    return kinds, {"configurations": len(kinds), "labels": table.labels, "gpu": table.gpu or None, "left_out": left_out}


def _slowdowns(names: Sequence[str], colocation: Path | None) -> Mapping[str, Slowdown]:
    """The curves that were asked for; all that can be without a name."""
    if _MEASURED in names and colocation is None:
        raise InputError("the slowdown 'measured' needs measured pairs; give them with --colocation CSV")
    if colocation is not None and names and _MEASURED not in names:
        raise InputError(f"--colocation is not used by --slowdown {', '.join(names)}; add --slowdown measured or leave it out")
    known = dict(ASSUMED)
    if colocation is not None:
        known[_MEASURED] = MeasuredSlowdown.fit(read_colocation(colocation))
    return {name: known[name] for name in (dict.fromkeys(names) or known)}


def _errors_of(jobs: Sequence[Job], runs: int, seed: int, error: float) -> list[Sequence[Job]]:
    """The same jobs as often as errors are drawn; without an error the predictions are the table's own."""
    if not error:
        return [jobs] * runs
    return [with_prediction_error(jobs, error, np.random.default_rng([seed, run])) for run in range(runs)]


def _text(answer: Mapping[str, Any], summaries: Sequence[Summary], order: Mapping[str, Ordering]) -> str:
    once = answer["runs"] == 1
    what = f"{answer['jobs']} jobs on {answer['gpus']} GPUs of {answer['memory'] / 2**30:.4g} GiB"
    lines = [what if once else f"{what}, means of {answer['runs']} runs (± half of the 95 % interval)"]
    if told := answer["drawn_from"]:
        left_out = sum(told["left_out"].values())
        lines.append(
            f"drawn from {told['configurations']} configurations, occupancies: {told['labels']}"
            + (f" ({left_out} left out: too large, or nothing known of memory or NVML utilisation)" if left_out else "")
        )
    for curve in dict.fromkeys(one.slowdown for one in summaries):
        own = [one for one in summaries if one.slowdown == curve]
        header = ("policy", "makespan", "gain", "NVML", "gain", "occupancy", "JCT / alone", "run / alone", "OOM", "best")
        lines += ["", f"slowdown: {curve}", table(header, [_row(one, once) for one in own])]
        if curve in order:
            lines.append(_ordering(order[curve], once))
    return "\n".join(lines)


def _row(one: Summary, once: bool) -> list[str]:
    makespan, figures = one.figures["makespan"], one.figures
    half = "" if once else f" ± {seconds_text(makespan.high - makespan.mean)}"
    gains = [f"{100 * gain:+.1f} %" if np.isfinite(gain) else "-" for gain in (one.makespan_gain, one.utilisation_gain)]
    return [
        one.policy,
        seconds_text(makespan.mean) + half,
        gains[0] if one.policy != "slot" else "",
        f"{100 * figures['nvml_utilisation'].mean:.1f} %",
        gains[1] if one.policy != "slot" else "",
        f"{100 * figures['occupancy'].mean:.1f} %",
        f"{figures['jct_slowdown'].mean:.2f}",
        f"{figures['run_slowdown'].mean:.2f}",
        f"{figures['failures'].mean:g}",
        ("yes" if one.won else "") if once else f"{100 * one.won:.0f} %",
    ]


def _ordering(order: Ordering, once: bool) -> str:
    """Whether the paper's Table VI is found again."""
    share = "" if once else f", in {100 * order.makespan_runs:.0f} % of the runs"
    least = "" if once else f"; occu is the fastest of the three in {100 * order.occu_best_runs:.0f} %"
    return (
        f"the paper's order of makespans (occu < nvml-util < slot) {'holds' if order.makespan else 'does not hold'}"
        f"{share}{least}; occu's NVML utilisation is {'' if order.utilisation else 'not '}the highest of the three"
    )


def _figure(summaries: Sequence[Summary]) -> Figure:
    from ..figures.packing import packing_figure

    def bars(name: str) -> dict[str, dict[str, tuple[float, float, float]]]:
        found: dict[str, dict[str, tuple[float, float, float]]] = {}
        for one in summaries:
            figure = one.figures[name]
            found.setdefault(one.slowdown, {})[one.policy] = (figure.mean, figure.low, figure.high)
        return found

    return packing_figure(bars("makespan"), bars("nvml_utilisation"))
