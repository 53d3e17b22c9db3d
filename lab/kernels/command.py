"""``python -m lab.kernels``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click
import pandas as pd

from epochcast.analyzer.backends.occupancy.launch.calculator import CONFIGURATION
from epochcast.analyzer.backends.occupancy.launch.kernel_table import summarise
from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import gpus_option
from epochcast.analyzer.csv_text import source_name
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plain_json import plain, plain_json
from epochcast.analyzer.tables import seconds_text
from epochcast.regressor import load_catalog
from lab.kernels.busiest import LAUNCH, advice, busiest, count_skipped
from lab.kernels.counted_text import counted_answer, counted_sentences, is_trace
from lab.kernels.files import KernelFile, read_any
from lab.kernels.files.kernel_file import occupancy_rows
from lab.kernels.text import sentences
from lab.kernels.timeline import BINS, timelines

_TOP = 10
_OVER_TIME = {
    "utilisation": "utilisation",
    "occupancy_of_the_span": "occupancy",
    "busy_occupancy": "busy_occupancy",
    "unknown_of_the_span": "unknown",
}
"""Figures from the first kernel's begin to the last one's end (``span_s`` seconds), and the ratios of a timeline that they are.

Means over the GPUs, and of each GPU; null if the format records no times. ``occupancy_of_the_span`` counts idle time as 0,
``busy_occupancy`` leaves it out; kernels of unknown occupancy that ran alone are left out of both.
"""


@click.command()
@click.argument("profile", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--gpu", "gpu_name", metavar="NAME", help="Calculate for this GPU instead of the GPU that the file names.")
@gpus_option
@click.option(
    "--by",
    type=click.Choice(["kernel", "launch"]),
    default="kernel",
    show_default=True,
    help="List kernels by name, or by name and launch configuration.",
)
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help=f"List the N busiest kernels. [default: {_TOP}; all with --json]"
)
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the busiest kernels (PNG, SVG, PDF).")
@click.option(
    "--timeline",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw occupancy and NVML utilisation over time (PNG, SVG, PDF).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; ratios are 0 to 1, times seconds.")
def occupancy_of(
    profile: Path,
    gpu_name: str | None,
    gpus: Path | None,
    by: Literal["kernel", "launch"],
    top: int | None,
    plot: Path | None,
    timeline: Path | None,
    as_json: bool,
) -> int:
    """Calculate the GPU occupancy of profiled kernels from their launch configurations.

    FILE is a trace of PyTorch's profiler (.json, .json.gz) or a CSV file of ncu (pages raw and details); - reads standard
    input. Achieved occupancy that ncu measured is shown next to the calculated one. PyTorch's traces record when kernels
    ran, so NVML utilisation and occupancy over time are shown too. A trace of `epochcast record` shows both as the hardware
    counted them (sm_occupancy, gpu_utilization).

    \b
    Example: python -m lab.kernels trace.json.gz --plot kernels.png \\
                 --timeline time.png
    """
    if is_trace(profile):
        if gpu_name is not None or by != "kernel" or top is not None or plot is not None:
            raise InputError(f"{str(profile)!r} is a trace without kernels; leave out --gpu, --by, --top and --plot")
        counted = counted_answer(profile, timeline)
        terminal.say(plain_json(counted) if as_json else counted_sentences(counted), as_is=as_json)
        return 0
    name = source_name(profile)
    catalog = load_catalog(gpus)
    gpu = None if gpu_name is None else catalog.resolve(gpu_name)
    file = read_any(profile)
    rows = occupancy_rows(file, name, catalog, gpu)
    answer = plain({**_answer(rows, file), "kernels": list(_kernels(rows, by, top if as_json else top or _TOP))})
    if plot is not None:
        from epochcast.analyzer.figures import save_figure
        from lab.figures.occupancy import kernel_occupancy_figure

        save_figure(kernel_occupancy_figure(busiest(_counted(rows)).head(top or _TOP), summarise(rows)), plot)
    if timeline is not None:
        _draw_over_time(rows, name, timeline)
    terminal.say(plain_json(answer) if as_json else sentences(answer), as_is=as_json)
    return 0


def _counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that enter the means."""
    return rows[rows["grid"].notna() | rows["achieved"].notna()]


def _answer(rows: pd.DataFrame, file: KernelFile) -> dict[str, Any]:
    known = _counted(rows)
    names = sorted(set(known["gpu"]))
    by_device = timelines(rows)
    over_time = {
        device: {name: float(getattr(timeline, ratio)[0]) for name, ratio in _OVER_TIME.items()}
        for device, timeline in by_device.items()
    }
    means, unknown = pd.DataFrame(list(over_time.values()), columns=list(_OVER_TIME)).mean(), dict.fromkeys(_OVER_TIME)
    return {
        "format": file.format,
        "gpu": names[0] if len(names) == 1 else None,
        **summarise(rows).to_json(),
        "span_s": next((timeline.seconds for timeline in by_device.values()), None),
        **{name: means[name] for name in _OVER_TIME},
        "devices": [
            {**device, **over_time.get((device["gpu"], device["device"]), unknown)} for device in _each(known, "gpu", "device")
        ],
        "workloads": _each(known, "workload"),
        "skipped": dict(Counter(file.passed_over) + Counter(count_skipped(rows))),
        "advice": list(advice(known)),
    }


def _each(rows: pd.DataFrame, *keys: str) -> list[dict[str, Any]]:
    """A summary of each group; empty if there is one alone."""
    groups = rows.groupby(list(keys), dropna=False)
    if groups.ngroups < 2:
        return []
    return [{**_whole(dict(zip(keys, key, strict=True))), **summarise(group).to_json()} for key, group in groups]


def _kernels(rows: pd.DataFrame, by: str, top: int | None) -> Iterator[dict[str, Any]]:
    for record in busiest(_counted(rows), LAUNCH if by == "launch" else ("kernel",))[:top].to_dict("records"):
        row = _whole(record)
        if by == "launch":
            grid, block = ([row.pop(f"{which}_{axis}") for axis in "xyz"] for which in ("grid", "block"))
            others = {name: row.pop(name) for name in ("registers_per_thread", "shared_memory")}
            row["launch"] = {"grid": grid, "block": block, **others}
        yield row


def _whole(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Counts and sizes as whole numbers, None for those that are missing."""
    counts = ("device", "launches", "blocks", "resident_blocks", "sm_count", *CONFIGURATION)
    return {name: value if name not in counts else None if pd.isna(value) else int(value) for name, value in row.items()}


def _draw_over_time(rows: pd.DataFrame, name: str, path: Path) -> None:
    """Draw each GPU; InputError if the profile ``name`` records no times."""
    from epochcast.analyzer.figures import save_figure
    from lab.figures.occupancy import occupancy_over_time_figure

    titles = {}
    for (gpu, index), timeline in timelines(rows).items():
        used, filled = 100 * timeline.utilisation[0], 100 * timeline.occupancy[0]
        device = f"{gpu or 'GPU'}{'' if index is None else f' ({index})'}"
        titles[gpu, index] = (
            f"{device}, {seconds_text(timeline.seconds)}: NVML utilisation {used:.1f} %, occupancy {filled:.1f} %"
        )
    if not titles:
        raise InputError(f"{name!r} does not record when its kernels ran; give --timeline a trace of PyTorch's profiler")
    drawn = {titles[device]: timeline for device, timeline in timelines(rows, BINS).items()}
    save_figure(occupancy_over_time_figure(drawn, "by launch configuration"), path)
