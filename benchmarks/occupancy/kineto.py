"""Launch-config occupancy against Kineto's estimate on public profiler traces; part `kineto` of docs/occupancy.md.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.occupancy.kineto [--write]
"""

import argparse
import math
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.occupancy.kernel_files import KernelFile, read_any
from epochcast.analyzer.backends.occupancy.kernel_files.kernel_file import occupancy_rows
from epochcast.analyzer.backends.occupancy.launch.calculator import Launch, Occupancy, occupancy
from epochcast.analyzer.backends.occupancy.launch.gpu_limits import GpuLimits
from epochcast.analyzer.backends.occupancy.launch.kernel_table import busiest, summarise
from epochcast.analyzer.figures.occupancy import kernel_occupancy_figure
from epochcast.regressor import load_catalog

from ..page import OCCUPANCY, markdown_table

FILE = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/occupancy/kineto_kernels.csv.gz"

DEFAULT_LIMIT = 48 * 1024
"""Bytes of shared memory that a block may have without opting in."""

DRAWN = "Qwen_Qwen1.5-0.5B-Chat"

# GPU, grid, block, registers per thread, shared memory
EXAMPLES = (
    ("NVIDIA H100 80GB HBM3", Launch((56, 2, 1), (384, 1, 1), 168, 231_424)),
    ("NVIDIA A100-SXM4-80GB", Launch((64, 1, 3), (128, 1, 1), 96, 98_304)),
    ("NVIDIA A100-SXM4-80GB", Launch((8, 1, 1), (128, 1, 1), 20, 0)),
)


def main() -> None:
    """Print the part; --write puts it into docs/occupancy.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/occupancy.md")
    write = parser.parse_args().write
    if not FILE.exists():
        sys.exit(f"{FILE} is not there; set EPOCHCAST_SHARED")
    file = read_any(FILE)
    rows = occupancy_rows(file, str(FILE), load_catalog())
    content = [*agreement(rows), "", *by_trace(rows), "", *examples(file, rows)]
    if write:
        content += ["", f"![Occupancy of the busiest kernels of a trace]({picture(rows)})"]
        OCCUPANCY.fill("kineto", content)
    print("\n".join(content))


def agreement(rows: pd.DataFrame) -> list[str]:
    """How far off Kineto's whole percents are, where it says more than 0 and where it says 0."""
    known = rows[rows["skipped"] == ""]
    said, zero = known[known["estimate"] > 0], known[known["estimate"] == 0]
    kib = DEFAULT_LIMIT // 1024
    lines = [
        ("Kineto says more than 0", said),
        (
            f"Kineto says 0, shared memory up to {kib} KiB: tiny grids, rightly rounded",
            zero[zero["shared_memory"] <= DEFAULT_LIMIT],
        ),
        (f"Kineto says 0, shared memory above {kib} KiB: wrong", zero[zero["shared_memory"] > DEFAULT_LIMIT]),
    ]
    header = ("launches with a device", "n", "ours, %", "within 1 point of Kineto", "furthest off", "ours rounds to 0")
    return markdown_table(header, [(title, *compared(launches)) for title, launches in lines])


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


def by_trace(rows: pd.DataFrame) -> list[str]:
    """Kineto's mean beside ours."""
    lines = []
    for trace, launches in rows.groupby("workload", sort=False):
        name = str(trace).removeprefix("tests/data/").removeprefix("tests/traces/")
        if (launches["skipped"] != "").all():
            lines.append((name, "not told", str(len(launches)), *[""] * 6))
            continue
        summary = summarise(launches)
        shares = summary.limiters
        lines.append(
            (
                name,
                launches["gpu"].iloc[0],
                str(summary.launches),
                f"{100 * launches['estimate'].mean():.1f}",
                f"{100 * summary.grid.mean:.1f}",
                f"{100 * summary.grid.time_mean:.1f}",
                f"{100 * summary.active.mean:.1f}",
                f"{100 * summary.limit.mean:.1f}",
                f"{100 * shares.get('grid', 0.0):.0f}",
            )
        )
    header = (
        "trace",
        "GPU",
        "launches",
        "Kineto's mean %",
        "our mean %",
        "by time %",
        "`active` %",
        "`limit` %",
        "too small a grid, % of time",
    )
    return markdown_table(header, lines)


def examples(file: KernelFile, rows: pd.DataFrame) -> Iterator[str]:
    """Three launches of which Kineto says 0, step by step."""
    for number, (name, launch) in enumerate(EXAMPLES, start=1):
        gpu = file.limits[name]
        found = occupancy(launch, gpu)
        same = rows[(rows["gpu"] == name) & alike(rows, launch)]
        kernel, said = same["kernel"].iloc[0][:60], 100 * same["estimate"].max()
        yield f"{number}. {name}, {kernel}… ({len(same)} launches; Kineto: {said:.0f} %):"
        yield from (f"   - {step}" for step in steps(launch, gpu, found))


def alike(rows: pd.DataFrame, launch: Launch) -> pd.Series:
    """Rows of this launch configuration."""
    wanted = {
        **dict(zip(("grid_x", "grid_y", "grid_z"), launch.grid, strict=True)),
        **dict(zip(("block_x", "block_y", "block_z"), launch.block, strict=True)),
        "registers_per_thread": launch.registers_per_thread,
        "shared_memory": launch.shared_memory,
    }
    return (rows[list(wanted)] == pd.Series(wanted)).all(axis=1)


def steps(launch: Launch, gpu: GpuLimits, found: Occupancy) -> Iterator[str]:
    """The calculation in figures that can be followed by hand."""
    blocks, threads = math.prod(launch.grid), math.prod(launch.block)
    warps = -(-threads // 32)
    yield f"warps: {threads} threads are {warps} warps; {gpu.max_warps} / {warps}: {found.blocks_by_warps:.0f} per SM"
    plain, per_warp = 32 * launch.registers_per_thread, -(-32 * launch.registers_per_thread // 256) * 256
    parts, partition = gpu.register_partitions, gpu.registers // gpu.register_partitions
    fit = partition // per_warp
    yield (
        f"registers: {launch.registers_per_thread} x 32 = {plain} per warp, in units of 256 {per_warp};"
        f" {partition} / {per_warp}: {fit} warps in each of {parts} parts, {fit * parts} in all;"
        f" {fit * parts} / {warps}: {found.blocks_by_registers:.0f}"
    )
    asked, unit = launch.shared_memory + gpu.reserved_per_block, gpu.shared_memory_unit
    allocated = -(-asked // unit) * unit
    yield (
        f"shared memory: {launch.shared_memory} + {gpu.reserved_per_block} reserved, in units of {unit} {allocated} bytes;"
        f" {gpu.shared_memory} / {allocated}: {found.blocks_by_shared_memory:.0f}"
    )
    yield f"an SM takes {found.blocks_by_blocks:.0f} blocks at most; so B = {found.resident_blocks}"
    each = blocks / gpu.sm_count
    yield (
        f"grid: {blocks} blocks on {gpu.sm_count} SMs are {each:.3f} each; min({found.resident_blocks}, {each:.3f}) x {warps} /"
        f" {gpu.max_warps} = {100 * found.grid:.2f} %; limited by {found.limiter.replace('_', ' ')}"
    )


def picture(rows: pd.DataFrame) -> str:
    """`occupancy-of --plot` of one trace."""
    trace = rows[rows["workload"].str.contains(DRAWN, regex=False)]
    return OCCUPANCY.save_picture(kernel_occupancy_figure(busiest(trace).head(10), summarise(trace)), "kernels")


if __name__ == "__main__":
    main()
