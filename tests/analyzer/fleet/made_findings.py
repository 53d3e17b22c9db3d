"""Findings of a made-up fleet, as the analysis of traces hands them on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from epochcast.analyzer.fleet.finding import Finding, JobSpan, Quality
from epochcast.analyzer.telemetry.gpu_report import NOTHING, EpochRecord, GpuDevice, Report
from epochcast.detector import Detection
from epochcast.regressor import Profile
from epochcast.regressor.profile_json import read_profile

BEGAN = 1_750_000_000.0

WHOLE = Quality(rows=6000, hertz=10.0, missing_ratio=0.0, longest_hole_s=0.1, metrics=("sm_active", "power"))


@cache
def example() -> Profile:
    text = files("epochcast.analyzer.jobs").joinpath("example_profile.json").read_text(encoding="utf-8")
    return replace(read_profile(json.loads(text)), simulated=True, stalls=0, stall_s=0.0)


def profile(gpu: str, epoch_s: float | None, unit: str | None = "epoch", more_work: float = 1.0, clock: float = 1.0) -> Profile:
    one = example()
    clocks = {name: value * clock for name, value in one.metrics["sm_clock"].items()}
    active = {name: value * more_work for name, value in one.metrics["sm_active"].items()}
    timed: dict[str, Any] = dict.fromkeys(("epoch_s", "epoch_s_low", "epoch_s_high", "first_epoch_s", "unit"))
    if epoch_s is not None:
        timed = {"epoch_s": epoch_s, "epoch_s_low": 0.98 * epoch_s, "epoch_s_high": 1.02 * epoch_s, "unit": unit}
    return replace(one, gpu=gpu, metrics={**one.metrics, "sm_active": active, "sm_clock": clocks}, **timed)


def device(node: str, index: int, name: str = "Tesla T4", **rented: str) -> GpuDevice:
    return GpuDevice(f"GPU-{node}-{index}", str(index), name, node, "made-up", simulated=True, **rented)


def span(
    of: GpuDevice,
    *,
    start: float = BEGAN,
    seconds: float = 600.0,
    period: float = 30.0,
    shift: float = 0.0,
    verdict: str = "epochs",
    more_work: float = 1.0,
    clock: float = 1.0,
    **measured: Any,
) -> JobSpan:
    """A stretch of work with epochs of ``period`` all along, that end ``shift`` later than its beginning says."""
    unit = {"epochs": "epoch", "steps": "step", "none": None}[verdict]
    ends = np.arange(start + shift + period, start + seconds, period) if verdict == "epochs" else np.array([])
    epochs = tuple(EpochRecord(float(end - period), float(end), 0.95, start) for end in ends)
    report = Report(
        device=of,
        state="idle",
        detection=Detection(verdict, period, None, (), 0.95, "track", "wall") if unit else NOTHING,  # type: ignore[arg-type]
        job_since=start,
        epochs_seen=len(epochs),
        profile=profile({"Tesla T4": "T4"}.get(of.name, of.name), period if unit else None, unit, more_work, clock),
        last_sample=start + seconds,
        samples=int(10 * seconds),
    )
    return JobSpan(_trace(of), start, start + seconds, report, epochs, **measured)


def _trace(of: GpuDevice) -> str:
    return f"{of.node}/{of.label}.parquet"


def finding(
    of: GpuDevice, *spans: JobSpan, idle_s: float | None = 0.0, seconds: float = 600.0, quality: Quality = WHOLE
) -> Finding:
    return Finding(_trace(of), "1", of, BEGAN, BEGAN + seconds, idle_s, spans, quality, cpu_s=0.5)


def fleet(nodes: int, *, seed: int = 0, name: str = "NVIDIA A100-SXM4-40GB") -> Iterator[Finding]:
    """Nodes of 8 GPUs: a job of 4 in step, one of 2, a GPU with steps, and one that is idle."""
    rng = np.random.default_rng(seed)
    for node in range(nodes):
        where = f"node-{node:05}"
        rented = {"instance": "a2-highgpu-8g", "cloud": "gcp", "region": "us-central1"} if node % 2 else {}
        for first, count in ((0, 4), (4, 2)):
            period, shift = float(rng.uniform(8, 60)), float(rng.uniform(0, 8))
            for index in range(first, first + count):
                of = device(where, index, name, **rented)
                one = span(of, period=period, shift=shift + float(rng.uniform(0, 0.05)), busy_ratio=0.8, energy_j=1e5)
                yield finding(of, one)
        of = device(where, 6, name, **rented)
        yield finding(of, span(of, verdict="steps", period=0.7))
        of = device(where, 7, name, **rented)
        yield finding(of, idle_s=600.0)
