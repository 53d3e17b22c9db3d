"""``epochcast simulate-packing``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from epochcast.analyzer.backends.occupancy.packing.jobs import MEAN_DURATION, draw_streams, read_jobs, read_kinds
from epochcast.analyzer.backends.occupancy.packing.simulation import (
    BASELINE,
    POLICIES,
    SLOWDOWNS,
    compare,
    orderings,
    summarise,
)
from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.shared_options import MemorySize, gpus_option, json_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plain_json import plain_json
from epochcast.analyzer.tables import seconds_text, table
from epochcast.regressor import load_catalog

_PATH = click.Path(path_type=Path)
_RUNS = 100


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
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help=f"Number of random streams to draw. [default: {_RUNS}]")
@click.option(
    "--load",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SHARE",
    help="Arrival rate (Poisson) as a share of what one job per GPU can serve. [default: all arrive at once]",
)
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Seed of the streams. [default: 0]")
@json_option
def simulate_packing(
    jobs: Path | None,
    configurations: Path | None,
    gpus_total: int,
    gpu: str | None,
    memory: float | None,
    gpus: Path | None,
    curves: tuple[str, ...],
    runs: int | None,
    load: float | None,
    seed: int | None,
    as_json: bool,
) -> int:
    """Simulate packing jobs on shared GPUs by predicted occupancy, and compare it with other policies.

    Policies are slot (one job per GPU), nvml-util (at most 100 % of NVML utilisation on a GPU) and occu (at most 100 % of
    predicted occupancy). Gains are relative to slot. Sharing slows jobs down by one of these models: none; fig7, by cumulative
    occupancy as in the DNN-occu paper (shape assumed from its text); utilisation, jobs take turns.

    Give --jobs or --configurations. A table of jobs has the columns name, arrival_s, duration_s (alone on a GPU), occupancy and
    nvml_utilisation (0 to 1), and memory_bytes; predicted_occupancy and predicted_memory_bytes are optional. A table of
    configurations holds measured trainings, as GPUMemNet's do.

    \b
    Example: epochcast simulate-packing --configurations trainings.csv
             epochcast simulate-packing --jobs queue.csv --gpus-total 8 \\
                 --memory 80GB --slowdown fig7
    """
    catalog = load_catalog(gpus)
    board = None if gpu is None else catalog.resolve(gpu)
    source: dict[str, Any] = {}
    if (jobs is None) == (configurations is None):
        raise InputError("give exactly one of --jobs CSV and --configurations CSV")
    if jobs is not None:
        for option, value in (("--runs", runs), ("--load", load), ("--seed", seed)):
            if value is not None:
                raise InputError(f"{option} applies to streams drawn from --configurations; leave it out with --jobs")
        drawn = [read_jobs(jobs)]
        if memory is None and board is None:
            raise InputError("the memory of the GPUs is not known; give --gpu NAME or --memory BYTES")
    elif configurations is not None:
        kinds, of, not_measured = read_kinds(configurations, catalog, board)
        board = board or of
        fitting = [kind for kind in kinds if kind.memory <= (memory or board.memory)]
        if not fitting:
            least = min(kind.memory for kind in kinds)
            raise InputError(f"every configuration needs {least:.4g} bytes or more; give larger GPUs")
        source = {
            "configurations": len(fitting),
            "gpu": of.name,
            "left_out": {"not_measured": not_measured, "too_large": len(kinds) - len(fitting)},
        }
        rate = None if load is None else load * gpus_total / MEAN_DURATION
        drawn = draw_streams(fitting, runs or _RUNS, seed or 0, arrival_rate=rate)
    size = memory or float(board.memory if board else 0)
    rows = compare(drawn, gpus_total, size, POLICIES, {name: SLOWDOWNS[name] for name in curves or SLOWDOWNS}, progress.show)
    progress.clear()
    answer = {
        "gpus": gpus_total,
        "memory": size,
        "drawn_from": source,
        "runs": len(drawn),
        "jobs": len(drawn[0]),
        "seed": seed or 0,
        "results": summarise(rows),
        "ordering": orderings(rows),
    }
    if as_json:
        click.echo(plain_json(answer))
    else:
        terminal.say(_text(answer))
    return 0


def _text(answer: Mapping[str, Any]) -> str:
    once = answer["runs"] == 1
    what = f"{answer['jobs']} jobs on {answer['gpus']} GPUs of {answer['memory'] / 2**30:.4g} GiB"
    lines = [what if once else f"{what}, means of {answer['runs']} runs (± half of the 95 % interval)"]
    if source := answer["drawn_from"]:
        left_out = sum(source["left_out"].values())
        without = f" ({left_out} left out: crashed, not measured, or too large)" if left_out else ""
        lines.append(f"drawn from {source['configurations']} configurations measured on {source['gpu']}{without}")
    for curve, order in answer["ordering"].items():
        own = [_row(row, once) for row in answer["results"] if row["slowdown"] == curve]
        header = ("policy", "makespan", "gain", "NVML", "gain", "occupancy", "JCT / alone", "run / alone", "OOM", "best")
        lines += ["", f"slowdown: {curve}", table(header, own), _ordering(order, once)]
    return "\n".join(lines)


def _row(row: Mapping[str, Any], once: bool) -> list[str]:
    means = {name: figure["mean"] for name, figure in row["figures"].items()}
    half = "" if once else f" ± {seconds_text(row['figures']['makespan']['high'] - means['makespan'])}"
    gains = [
        "" if row["policy"] == BASELINE else f"{100 * gain:+.1f} %" if np.isfinite(gain) else "-"
        for gain in (row["makespan_gain"], row["utilisation_gain"])
    ]
    return [
        row["policy"],
        seconds_text(means["makespan"]) + half,
        gains[0],
        f"{100 * means['nvml_utilisation']:.1f} %",
        gains[1],
        f"{100 * means['occupancy']:.1f} %",
        f"{means['jct_slowdown']:.2f}",
        f"{means['run_slowdown']:.2f}",
        f"{means['failures']:g}",
        ("yes" if row["won"] else "") if once else f"{100 * row['won']:.0f} %",
    ]


def _ordering(order: Mapping[str, Any], once: bool) -> str:
    """Whether the paper's Table VI is found again."""
    share = "" if once else f", in {100 * order['makespan_runs']:.0f} % of the runs"
    return (
        f"the paper's order of makespans (occu < nvml-util < slot) {'holds' if order['makespan'] else 'does not hold'}{share}; "
        f"occu's NVML utilisation is {'' if order['utilisation'] else 'not '}the highest of the three"
    )
