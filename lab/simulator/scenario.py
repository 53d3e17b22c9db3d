"""From what runs on a device to the trace that a recorder would write of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import NDArray

from lab.simulator.devices import DEVICES
from lab.simulator.draws import log_uniform
from lab.simulator.telemetry import Noise, measure
from lab.simulator.timeline import TICK_S, SimulatedTimeline
from lab.simulator.trace import SimulatedTrace
from lab.simulator.training import SimulatedTraining
from lab.simulator.workload import draw

Array = NDArray[np.float64]

_NVML = ("gpu_utilization", "memory_utilization", "temperature", "memory_used", "sm_clock", "memory_clock")
_POLL_S = 2.0  # see `RecordingFaults.averaged`
_SECOND = round(1 / TICK_S)  # ticks
# Shares as in `SimulatedTraining.step`; by choice, as are the defaults and noise below.
_ANY_STEP = (0.05, 0.05, 0.30, 0.50, 0.10)


@dataclass(frozen=True)
class SimulatedProcess:
    """One process on the device.

    Attributes:
        timeline: what it does; the epochs of the first training, and of a second one, are the truth.
        plan: of a training.
        contrast: of its validation, see `workload.draw`.
    """

    timeline: SimulatedTimeline
    plan: SimulatedTraining | None = None
    contrast: float = 0.3


@dataclass(frozen=True)
class RecordingFaults:
    """What goes wrong while a trace is recorded.

    Attributes:
        interval_s: from one row to the next [s]; from a second on, a row has NVML's readings, as wandb polls them.
        averaged: such a row has the mean of what NVML reported every 2 s since the last one, as older wandb wrote it.
        jitter_s: how far a time stamp is off at most, below half an interval [s].
        missing: share of rows that are not there.
        holes_s: lengths of stretches without any row [s].
        glitches: share of a metric's readings that are far off.
        stale: share of rows in which the fast metrics have not moved on yet (a sampler's clock drifts against the device's).
    """

    interval_s: float = TICK_S
    averaged: bool = False
    jitter_s: float = 0.002
    missing: float = 0.0
    holes_s: tuple[float, ...] = ()
    glitches: float = 0.0
    stale: float = 0.005


@dataclass(frozen=True)
class Scenario:
    """What runs, and how it is recorded. `calm` scales the noise of the readings."""

    processes: tuple[SimulatedProcess, ...]
    recording: RecordingFaults = field(default_factory=RecordingFaults)
    calm: float = 1.0


def observe(cls: str, seed: int, scenario: Scenario, rng: np.random.Generator) -> SimulatedTrace:
    """The trace of a scenario on one of the devices, with noise of its own; class and seed are noted in it."""
    device = DEVICES[rng.integers(len(DEVICES))]
    noise = draw_noise(rng, scenario.calm)
    steps = [process.plan.step if process.plan else _ANY_STEP for process in scenario.processes]
    works = [draw(device, step, process.contrast, rng) for step, process in zip(steps, scenario.processes, strict=True)]
    processes = [(process.timeline, work) for process, work in zip(scenario.processes, works, strict=True)]
    ticks = int(max(timeline.length_s for timeline, _ in processes) / TICK_S)
    start = 1_700_000_000.0 + float(rng.integers(10**7))
    metrics = measure(processes, device, noise, ticks, rng)
    time = start + TICK_S * np.arange(1, ticks + 1, dtype=np.float64)
    time, metrics = record(time, metrics, scenario.recording, rng)
    marks = [timeline.marks() for timeline, _ in processes if timeline.starts.size]
    marks += [(np.empty(0), np.empty(0))] * (2 - len(marks))
    return SimulatedTrace(
        time=time,
        metrics=metrics,
        epoch_starts=start + marks[0][0],
        epoch_ends=start + marks[0][1],
        training=marks[0][0].size > 0,
        gpu=device.name,
        cls=cls,
        epoch_starts2=start + marks[1][0],
        epoch_ends2=start + marks[1][1],
        settings={
            "seed": seed,
            "noise": asdict(noise),
            "recording": asdict(scenario.recording),
            "jobs": [asdict(process.plan) | {"contrast": process.contrast} for process in scenario.processes if process.plan],
            "busy": [np.minimum(work.levels["gr_engine_active"], 1).tolist() for work in works],  # of each process, by phase
        },
    )


def draw_noise(rng: np.random.Generator, calm: float = 1.0) -> Noise:
    """How unsteady a job's readings are: calm ones and wild ones, scaled by `calm`."""
    return Noise(
        tick=calm * log_uniform(rng, 0.006, 0.09),
        tick_s=log_uniform(rng, 0.02, 2),
        drift=calm * log_uniform(rng, 0.004, 0.04),
        drift_s=log_uniform(rng, 10, 300),
    )


def record(
    time: Array, metrics: dict[str, Array], recording: RecordingFaults, rng: np.random.Generator
) -> tuple[Array, dict[str, Array]]:
    """The rows that a recorder keeps of readings at `time`, (n,), with what goes wrong while it does."""
    if recording.interval_s >= 1:
        time, metrics = _now_and_then(time, metrics, recording.interval_s, averaged=recording.averaged)
    if recording.glitches:
        for name, values in metrics.items():
            if name != "energy":
                wrong = rng.random(time.size) < recording.glitches
                metrics[name] = np.where(wrong, np.nanmax(values) * rng.choice([0.0, 1.0], time.size), values)
    late = np.arange(time.size) - (rng.random(time.size) < recording.stale)
    metrics = {name: values if np.isnan(values).any() else values[np.maximum(late, 0)] for name, values in metrics.items()}
    kept = rng.random(time.size) >= recording.missing
    for hole_s in recording.holes_s:
        first = int(rng.integers(time.size))
        kept[first : first + int(hole_s / recording.interval_s)] = False
    stamped = time + rng.uniform(-recording.jitter_s, recording.jitter_s, time.size)
    return stamped[kept], {name: values[kept] for name, values in metrics.items()}


def _now_and_then(
    time: Array, metrics: dict[str, Array], interval_s: float, *, averaged: bool
) -> tuple[Array, dict[str, Array]]:
    """NVML's readings every `interval_s`: its last reading of the second before, and the mean power of that second."""
    row_s = interval_s * np.arange(1, int(time.size * TICK_S / interval_s) + 1)
    energy = np.concatenate([[0.0], np.cumsum(metrics["power"])])
    count = round(interval_s / _POLL_S) if averaged else 1
    readings = []
    for i in range(count):
        ticks = np.maximum(np.round((row_s - i * _POLL_S) / TICK_S).astype(np.int64), _SECOND)
        last = (ticks - 1) // _SECOND * _SECOND  # the tick at which the slow metrics were read
        power = np.round((energy[ticks] - energy[ticks - _SECOND]) / _SECOND, 2)
        readings.append({name: metrics[name][last] for name in _NVML} | {"power_average": power})
    means = {name: np.mean([reading[name] for reading in readings], axis=0) for name in readings[0]}
    return time[0] - TICK_S + row_s, means
