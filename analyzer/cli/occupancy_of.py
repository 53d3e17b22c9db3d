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
from ..backends.occupancy.kernel_files.profile_occupancy import occupancy_rows
from ..backends.occupancy.launch.advice import advice
from ..backends.occupancy.launch.calculator import CONFIGURATION
from ..backends.occupancy.launch.kernel_table import LAUNCH, busiest, count_skipped, summarise
from ..csv_text import source_name
from .occupancy_of_text import sentences
from .plain_json import plain_json

_TOP = 10


@click.command()
@click.argument("profile", metavar="FILE", type=click.Path(path_type=Path, allow_dash=True))
@click.option("--gpu", "gpu_name", metavar="NAME", help="Calculate for this GPU, whatever the file says that it ran on.")
@click.option("--gpus", type=click.Path(path_type=Path), metavar="FILE", help="GPUs of your own beside ours, TOML.")
@click.option(
    "--by",
    type=click.Choice(["kernel", "launch"]),
    default="kernel",
    show_default=True,
    help="List kernels by their name, or by their name and launch configuration.",
)
@click.option(
    "--top", type=click.IntRange(min=1), metavar="N", help=f"List the busiest N.  [default: {_TOP}; with --json all of them]"
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw the busiest kernels (.png, .svg, .pdf).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON; ratios are 0 to 1, times seconds.")
def occupancy_of(
    profile: Path,
    gpu_name: str | None,
    gpus: Path | None,
    by: Literal["kernel", "launch"],
    top: int | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """GPU occupancy of what a profile recorded, calculated from how its kernels were launched.

    FILE is a trace of PyTorch's profiler (.json, .json.gz), a CSV file of ncu (pages raw and details), or the kernels that
    `epochcast benchmark occupancy` recorded; - reads standard input. Achieved occupancy, which ncu measures, is told beside the
    calculated one.

    \b
    Example: epochcast occupancy-of trace.json.gz --plot kernels.png
    """
    name = source_name(profile)
    catalog = load_catalog(gpus)
    gpu = None if gpu_name is None else catalog.resolve(gpu_name)
    file = read_any(profile)
    rows = occupancy_rows(file, name, catalog, gpu)
    answer = {**_answer(rows, file), "kernels": list(_kernels(rows, by, top if as_json else top or _TOP))}
    if plot is not None:
        from ..figures import save_figure
        from ..figures.kernel_occupancy import kernel_occupancy_figure

        save_figure(kernel_occupancy_figure(busiest(_counted(rows), ("kernel",)).head(top or _TOP), summarise(rows)), plot)
    click.echo(plain_json(answer) if as_json else sentences(answer))
    return 0


def _counted(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that enter the means."""
    return rows[rows["grid"].notna() | rows["achieved"].notna()]


def _answer(rows: pd.DataFrame, file: KernelFile) -> dict[str, Any]:
    known = _counted(rows)
    names = sorted(set(known["gpu"]))
    return {
        "format": file.format,
        "gpu": names[0] if len(names) == 1 else None,
        **summarise(rows).to_json(),
        "devices": _each(known, ["gpu", "device"]),
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
