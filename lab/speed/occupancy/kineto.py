"""Launch-config occupancy against Kineto's estimate on public profiler traces; part `kineto` of docs/occupancy.md.

Run: python -m lab.speed.occupancy.kineto [--write]
"""

from collections.abc import Iterator

import pandas as pd

from epochcast.regressor import load_catalog
from lab.figures.occupancy import kernel_occupancy_figure
from lab.kernels.busiest import busiest
from lab.kernels.files import read_any
from lab.kernels.files.kernel_file import occupancy_rows
from lab.kernels.kernel_table import summarise
from lab.speed.page import OCCUPANCY, markdown_table, options, public, publish

DEFAULT_LIMIT = 48
"""KiB of shared memory that a block may have without opting in."""

DRAWN = "Qwen_Qwen1.5-0.5B-Chat"


def lines(draw: bool) -> Iterator[str]:
    """How far off Kineto's whole percents are, and both means by trace; ``draw`` also writes the picture."""
    traces = read_any(public("occupancy/kineto_kernels.csv.gz"))
    rows = occupancy_rows(traces, "the public traces", load_catalog())
    known = rows[rows["skipped"] == ""]
    said, small = known["estimate"] > 0, known["shared_memory"] <= 1024 * DEFAULT_LIMIT
    groups = {
        "Kineto says more than 0": said,
        f"Kineto says 0, shared memory up to {DEFAULT_LIMIT} KiB: tiny grids, rightly rounded": ~said & small,
        f"Kineto says 0, shared memory above {DEFAULT_LIMIT} KiB: wrong": ~said & ~small,
    }
    yield from markdown_table(
        ("launches with a device", "n", "ours, %", "within 1 point of Kineto", "furthest off", "ours rounds to 0"),
        [(title, *compared(known[mask])) for title, mask in groups.items()],
    )
    yield ""
    means = []
    for trace, own in known.groupby("workload", sort=False):
        summary = summarise(own)
        figures = (own["estimate"].mean(), summary.grid.mean, summary.grid.time_mean, summary.active.mean, summary.limit.mean)
        small_grid = f"{100 * summary.limiters.get('grid', 0.0):.0f}"
        gpu, launches = own["gpu"].iloc[0], str(summary.launches)
        means.append((str(trace).split("/", 2)[-1], gpu, launches, *(f"{100 * one:.1f}" for one in figures), small_grid))
    ours = ("our mean %", "by time %", "`active` %", "`limit` %", "too small a grid, % of time")
    yield from markdown_table(("trace", "GPU", "launches", "Kineto's mean %", *ours), means)
    if draw:
        drawn = rows[rows["workload"].str.contains(DRAWN, regex=False)]
        link = OCCUPANCY.save_picture(kernel_occupancy_figure(busiest(drawn).head(10), summarise(drawn)), "kernels")
        yield ""
        yield f"![Occupancy of the busiest kernels of a trace]({link})"


def compared(rows: pd.DataFrame) -> tuple[str, ...]:
    """Our occupancy against Kineto's."""
    ours, off = 100 * rows["grid"], 100 * (rows["grid"] - rows["estimate"]).abs()
    return (
        str(len(rows)),
        f"{ours.min():.2g} to {ours.max():.3g}",
        f"{100 * (off <= 1).mean():.2f} %",
        f"{off.max():.2f} points",
        f"{100 * (ours < 0.5).mean():.2f} %",
    )


if __name__ == "__main__":
    write = options(__doc__).parse_args().write
    publish(OCCUPANCY, "kineto", lines(write), write=write)
