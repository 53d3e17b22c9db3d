"""``epochcast occupancy-of``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import click
import pandas as pd

from ...regressor import load_catalog
from ..backends.occupancy.kernel_files import KernelFile, read_any
from ..backends.occupancy.kernel_files.kernel_file import occupancy_rows
from ..backends.occupancy.launch.advice import advice
from ..backends.occupancy.launch.calculator import CONFIGURATION
from ..backends.occupancy.launch.kernel_table import LAUNCH, busiest, count_skipped, summarise
from ..csv_text import source_name
from ..errors import InputError
from ..plain_json import plain_json
from . import terminal
from .occupancy_counted import counted_answer, counted_sentences, is_trace
from .occupancy_of_text import sentences
from .occupancy_over_time import SPAN_FIGURES, draw_over_time, span_figures
from .quantities import Duration
from .shared_options import gpus_option

_TOP = 10


@click.command()
@click.argument("profile", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--gpu", "gpu_name", metavar="NAME", help="Calculate for this GPU instead of the one the file names.")
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
@click.option(
    "--bin",
    "bin_width",
    type=Duration("seconds", above=0),
    help="Length of one step of --timeline: seconds, or 5ms. [default: a 200th of the time]",
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
    bin_width: float | None,
    as_json: bool,
) -> int:
    """Calculate the GPU occupancy of profiled kernels from how they were launched.

    FILE is a trace of PyTorch's profiler (.json, .json.gz) or a CSV file of ncu (pages raw and details); - reads standard
    input. If ncu measured the achieved occupancy, it is shown next to the calculated one. PyTorch's traces hold when kernels
    ran, so NVML utilisation and occupancy over time are shown too. A trace of `epochcast record` shows both as the hardware
    counted them (sm_occupancy, gpu_utilization).

    \b
    Example: epochcast occupancy-of trace.json.gz --plot kernels.png \\
                 --timeline time.png
    """
    if bin_width is not None and timeline is None:
        raise InputError(f"--bin {bin_width:g} is of no use without --timeline; name a figure to draw by it")
    if is_trace(profile):
        if gpu_name is not None or by != "kernel" or top is not None or plot is not None:
            raise InputError(f"{str(profile)!r} is a trace without kernels; leave out --gpu, --by, --top and --plot")
        counted = counted_answer(profile, timeline, bin_width)
        terminal.say(plain_json(counted) if as_json else counted_sentences(counted), as_is=as_json)
        return 0
    name = source_name(profile)
    catalog = load_catalog(gpus)
    gpu = None if gpu_name is None else catalog.resolve(gpu_name)
    file = read_any(profile)
    rows = occupancy_rows(file, name, catalog, gpu)
    answer = {**_answer(rows, file), "kernels": list(_kernels(rows, by, top if as_json else top or _TOP))}
    if plot is not None:
        from ..figures import save_figure
        from ..figures.occupancy import kernel_occupancy_figure

        save_figure(kernel_occupancy_figure(busiest(_counted(rows), ("kernel",)).head(top or _TOP), summarise(rows)), plot)
    if timeline is not None:
        draw_over_time(rows, name, timeline, bin_width)
    terminal.say(plain_json(answer) if as_json else sentences(answer), as_is=as_json)
    return 0


def _counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that enter the means."""
    return rows[rows["grid"].notna() | rows["achieved"].notna()]


def _answer(rows: pd.DataFrame, file: KernelFile) -> dict[str, Any]:
    known = _counted(rows)
    names = sorted(set(known["gpu"]))
    of_all, of_each = span_figures(rows)
    devices = _each(known, ["gpu", "device"])
    return {
        "format": file.format,
        "gpu": names[0] if len(names) == 1 else None,
        **summarise(rows).to_json(),
        **of_all,
        "devices": [{**one, **of_each.get((one["gpu"], one["device"]), dict.fromkeys(SPAN_FIGURES))} for one in devices],
        "workloads": _each(known, ["workload"]),
        "skipped": dict(Counter(file.passed_over) + Counter(count_skipped(rows))),
        "advice": list(advice(known)),
    }


def _each(rows: pd.DataFrame, keys: list[str]) -> list[dict[str, Any]]:
    """A summary of each group; empty if there is one alone."""
    groups = rows.groupby(keys, sort=True, dropna=False)
    if groups.ngroups < 2:
        return []
    return [{**_plain(dict(zip(keys, key, strict=True))), **summarise(group).to_json()} for key, group in groups]


def _kernels(rows: pd.DataFrame, by: str, top: int | None) -> Iterator[dict[str, Any]]:
    alike = LAUNCH if by == "launch" else ("kernel",)
    for row in busiest(_counted(rows), alike)[:top].to_dict("records"):
        if by == "launch":
            configuration = [_whole(row.pop(name)) for name in CONFIGURATION]
            row["launch"] = {
                "grid": configuration[:3],
                "block": configuration[3:6],
                "registers_per_thread": configuration[6],
                "shared_memory": configuration[7],
            }
        yield _plain(row)


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """Whole numbers as such, and None for what is missing."""
    whole = ("device", "launches", "blocks", "resident_blocks", "sm_count")
    values = {str(name): None if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
    return {name: _whole(value) if name in whole else value for name, value in values.items()}


def _whole(value: float | None) -> int | None:
    return None if value is None or math.isnan(value) else int(value)
