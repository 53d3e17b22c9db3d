"""Calculate the GPU occupancy of profiled kernels from their launch configurations.

FILE is a trace of PyTorch's profiler (.json, .json.gz), which records when kernels ran, so that NVML utilisation and occupancy
over time are shown too, or a table of `occupancy_bench.py`, with the occupancy that ncu measured next to the calculated one.

python -m lab.kernels trace.json.gz --plot kernels.png --timeline time.png
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from epochcast.analyzer.charts import save_figure
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import gpus_option, run_study
from lab.figures.occupancy import kernel_occupancy_figure, occupancy_over_time_figure
from lab.kernels.busiest import LAUNCH, busiest
from lab.kernels.files import KernelFile, read_any
from lab.kernels.files.kernel_file import occupancy_rows
from lab.kernels.kernel_table import summarise
from lab.kernels.timeline import BINS, OccupancyTimeline, timelines

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


def options(parser: argparse.ArgumentParser) -> None:
    """Which profile, and what of it."""
    parser.add_argument("profile", metavar="FILE", type=Path)
    parser.add_argument("--gpu", help="calculate for this GPU instead of the GPU that the file names")
    parser.add_argument("--by", choices=("kernel", "launch"), default="kernel", help="kernels by name, or launches alike")
    parser.add_argument("--top", type=int, default=10, help="list and draw the N busiest kernels")
    parser.add_argument("--plot", type=Path, help="draw the busiest kernels")
    parser.add_argument("--timeline", type=Path, help="draw occupancy and NVML utilisation over time")
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Means over launches and over time, by GPU, workload and kernel."""
    catalog = load_catalog(asked.gpus)
    file = read_any(asked.profile)
    gpu = None if asked.gpu is None else catalog.resolve(asked.gpu)
    rows = occupancy_rows(file, str(asked.profile), catalog, gpu)
    known = rows[rows["grid"].notna() | rows["achieved"].notna()]
    kernels = busiest(known, LAUNCH if asked.by == "launch" else ("kernel",)).head(asked.top)
    if asked.plot:
        save_figure(kernel_occupancy_figure(kernels, summarise(rows)), asked.plot)
    if asked.timeline:
        drawn = {f"{name or 'GPU'} ({index})": timeline for (name, index), timeline in timelines(rows, BINS).items()}
        _draw(drawn, asked.timeline)
    return _answer(rows, known, file) | {"kernels": kernels.to_dict("records")}


def _answer(rows: pd.DataFrame, known: pd.DataFrame, file: KernelFile) -> dict[str, Any]:
    names = sorted(set(known["gpu"]))
    by_device = timelines(rows)
    over_time = {
        device: {name: float(getattr(timeline, ratio)[0]) for name, ratio in _OVER_TIME.items()}
        for device, timeline in by_device.items()
    }
    means, unknown = pd.DataFrame(list(over_time.values()), columns=list(_OVER_TIME)).mean(), dict.fromkeys(_OVER_TIME)
    devices = [
        {**device, **over_time.get((device["gpu"], device["device"]), unknown)} for device in _each(known, "gpu", "device")
    ]
    skipped = rows[rows["skipped"] != ""].groupby("skipped")["count"].sum().astype(int).to_dict()
    return {
        "format": file.format,
        "gpu": names[0] if len(names) == 1 else None,
        **summarise(rows).to_json(),
        "span_s": next((timeline.seconds for timeline in by_device.values()), None),
        **{name: means[name] for name in _OVER_TIME},
        "devices": devices,
        "workloads": _each(known, "workload"),
        "skipped": dict(Counter(file.passed_over) + Counter(skipped)),
    }


def _each(rows: pd.DataFrame, *keys: str) -> list[dict[str, Any]]:
    """A summary of each group; empty if there is one alone."""
    groups = rows.groupby(list(keys), dropna=False)
    each = [{**dict(zip(keys, key, strict=True)), **summarise(group).to_json()} for key, group in groups]
    return each if len(each) > 1 else []


def _draw(drawn: dict[str, OccupancyTimeline], path: Path) -> None:
    if not drawn:
        raise InputError("it does not record when its kernels ran; give --timeline a trace of PyTorch's profiler")
    titles = {
        f"{name}: utilisation {100 * np.nanmean(one.utilisation):.1f} %, occupancy {100 * np.nanmean(one.occupancy):.1f} %": one
        for name, one in drawn.items()
    }
    save_figure(occupancy_over_time_figure(titles), path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; its exit code."""
    return run_study("lab.kernels", __doc__, options, study, arguments)


if __name__ == "__main__":
    sys.exit(main())
