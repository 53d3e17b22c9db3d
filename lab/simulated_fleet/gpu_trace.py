"""What one GPU shows while its jobs run: 10 Hz telemetry in the agent's metrics, and what goes wrong while it is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lab.simulated_fleet.job_timelines import SPIN, JobDrawn
from lab.simulator.devices import SimulatedDevice
from lab.simulator.scenario import RecordingFaults, record
from lab.simulator.telemetry import measure
from lab.simulator.timeline import TICK_S, Phase, SimulatedTimeline
from lab.simulator.workload import SimulatedWorkload

Array = NDArray[np.float64]

# Bytes/s of one direction of all NVLinks of a GPU; those that are not named have none.
_NVLINK = {"Tesla V100-SXM2-16GB": 150e9, "NVIDIA A100-SXM4-40GB": 300e9, "NVIDIA H100 80GB HBM3": 450e9}
# Share of it that the GPUs of one job send in a phase.
_EXCHANGE = {Phase.BACKWARD: 0.18, Phase.UPDATE: 0.08, SPIN: 0.02}
# What only the profiling counters measure; plain NVML has the rest.
_PROFILING = (
    *("gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp64_active", "fp32_active"),
    *("fp16_active", "pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx"),
)
# A counter keeps its digits, as in the agent's ring.
_COUNTERS = ("energy",)
_ONCE_A_SECOND, _ONCE_A_MINUTE = 10, 600


def readings(
    device: SimulatedDevice,
    jobs: Sequence[tuple[JobDrawn, SimulatedTimeline]],
    seconds: float,
    rng: np.random.Generator,
    *,
    exchanges: bool,
    silent: bool,
    recording: RecordingFaults,
) -> tuple[Array, dict[str, NDArray[np.floating]]]:
    """Return the times of its rows, (n,) seconds since the beginning, and its metrics, name -> (n,) in base units.

    Args:
        device: which kind of GPU.
        jobs: one after the other, each with what this GPU does of it; at least one.
        seconds: to be read.
        rng: source of this GPU's chances.
        exchanges: its job has other GPUs, to which it sends over NVLink where it has that.
        silent: the profiling metrics have no reading.
        recording: what goes wrong.
    """
    ticks = round(seconds / TICK_S)
    link = _NVLINK.get(device.name, 0.0)
    processes = [
        (timeline, _on_this(job.workload, rng, link=bool(link), exchanges=exchanges, jobs=len(jobs))) for job, timeline in jobs
    ]
    metrics = measure(processes, device, jobs[0][0].noise, ticks, rng)
    for name in ("nvlink_tx", "nvlink_rx"):
        if name in metrics:
            metrics[name] = link * metrics[name]
    metrics["fp64_active"] = np.zeros(ticks)
    metrics["power_average"] = _last_second(metrics["power"])
    metrics["power_limit"] = _every(np.full(ticks, device.power_limit_w), _ONCE_A_MINUTE)
    metrics["pcie_link_width"] = _every(np.full(ticks, 16.0), _ONCE_A_MINUTE)
    time, metrics = record(TICK_S * np.arange(1, ticks + 1, dtype=np.float64), metrics, recording, rng)
    if silent:
        metrics |= {name: np.full(time.size, np.nan) for name in _PROFILING if name in metrics}
    return time, {name: values if name in _COUNTERS else values.astype(np.float32) for name, values in metrics.items()}


def draw_recording(rng: np.random.Generator) -> RecordingFaults:
    """Most recordings are whole; some lack rows, have holes, or readings that are far off."""
    return RecordingFaults(
        missing=rng.uniform(0.02, 0.10) if rng.random() < 0.05 else 0.0,
        holes_s=tuple(rng.uniform(2, 20, int(rng.integers(1, 3)))) if rng.random() < 0.05 else (),
        glitches=0.001 if rng.random() < 0.02 else 0.0,
    )


def faults(recording: RecordingFaults, *, silent: bool) -> str:
    """What is wrong with a recording, in words; empty where nothing is."""
    present = {
        "rows missing": recording.missing > 0,
        "holes": bool(recording.holes_s),
        "glitches": recording.glitches > 0,
        "profiling metrics silent": silent,
    }
    return ", ".join(name for name, there in present.items() if there)


def _on_this(
    workload: SimulatedWorkload, rng: np.random.Generator, *, link: bool, exchanges: bool, jobs: int
) -> SimulatedWorkload:
    """The job's habits on this GPU: no two chips show quite the same. A process has the whole memory while it is there."""
    levels = {name: values * rng.lognormal(0, 0.01) for name, values in workload.levels.items()}
    if link:
        exchange = np.zeros(len(Phase))
        for phase, share in _EXCHANGE.items():
            exchange[phase] = share if exchanges else 0.0
        levels |= {"nvlink_tx": exchange, "nvlink_rx": exchange}
    return replace(workload, levels=levels, memory=workload.memory * jobs)


def _last_second(values: Array) -> Array:
    total = np.concatenate([[0.0], np.cumsum(values)])
    first = np.maximum(np.arange(values.size) + 1 - _ONCE_A_SECOND, 0)
    return np.where(
        np.arange(values.size) % _ONCE_A_SECOND == 0, (total[1:] - total[first]) / (np.arange(values.size) + 1 - first), np.nan
    )


def _every(values: Array, ticks: int) -> Array:
    return np.where(np.arange(values.size) % ticks == 0, values, np.nan)
