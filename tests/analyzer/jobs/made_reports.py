"""Reports and profiles of GPUs, as a watcher would tell them."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from types import SimpleNamespace
from typing import Any

from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.telemetry.gpu_report import EpochRecord, GpuDevice, Owner, Report
from epochcast.detector import Cycle, Detection, JobEpochs, unit_of
from epochcast.regressor import Profile
from epochcast.regressor.profile_json import read_profile

BEGAN = 1_700_000_000.0


def profile_of(gpu: str, epoch_s: float | None, unit: str | None = "epoch") -> Profile:
    """The example's profile on another GPU, with another epoch."""
    example = files("epochcast.analyzer.jobs").joinpath("example_profile.json")
    profile = read_profile(json.loads(example.read_text(encoding="utf-8")))
    timed = epoch_s is not None
    return replace(
        profile,
        gpu=gpu,
        epoch_s=epoch_s,
        unit=unit if timed else None,
        epoch_s_low=0.98 * epoch_s if timed else None,
        epoch_s_high=1.02 * epoch_s if timed else None,
        first_epoch_s=1.2 * epoch_s if timed else None,
    )


def report(
    uuid: str = "GPU-a",
    *,
    label: str = "0",
    node: str = "node-1",
    name: str = "Tesla T4",
    period: float = 30.0,
    epochs: int = 8,
    since: float | None = BEGAN,
    shift: float = 0.0,
    verdict: str = "epochs",
    state: str = "answered",
    confidence: float = 0.95,
    owners: tuple[Owner, ...] = (),
    profiled: bool = True,
    cycles: tuple[Cycle, ...] = (),
    second_period_s: float | None = None,
    **device: Any,
) -> Report:
    """A report of one GPU, whose epochs follow each other from ``since`` on."""
    units = {"epochs": ("epoch", period), "steps": ("step", period), "none": (None, None)}
    unit, length = units[verdict]
    unit = unit and unit_of(verdict, length, cycles)  # type: ignore[arg-type]
    begin = (since or BEGAN) + 5 + shift
    spans = [(begin + n * period, begin + (n + 1) * period) for n in range(epochs if verdict == "epochs" else 0)]
    sure = length if confidence >= 0.8 else None
    found = Detection(verdict, length, None, (), confidence if length else 0.0, "track", "wall", cycles=cycles)  # type: ignore[arg-type]
    if second_period_s is not None:
        found = replace(found, jobs=tuple(JobEpochs(each, (), confidence) for each in (period, second_period_s)))
    return Report(
        device=GpuDevice(uuid, label, name, node, "replay", simulated=True, **device),
        state=state,  # type: ignore[arg-type]
        detection=found,
        job_since=since,
        epochs_seen=len(spans),
        epochs=tuple(EpochRecord(start, end, confidence, since or BEGAN) for start, end in spans),
        profile=profile_of("T4", sure, unit) if profiled else None,
        owners=owners,
        last_sample=BEGAN + 1000,
        samples=10_000,
    )


def where(job: Job) -> Any:
    """The recommendation of a job, with its notes."""
    return SimpleNamespace(**vars(job.recommendation), notes=job.notes)
