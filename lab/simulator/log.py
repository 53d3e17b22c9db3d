"""A job as `nvidia-smi --loop=1` logs it: one reading a second, of a few metrics.

Ranges are by choice (docs/detector.md, "Simulated classes").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.simulator.devices import DEVICES
from lab.simulator.trace import SimulatedTrace

Array = NDArray[np.float64]

_VALIDATION = 0.6  # activity relative to training, by choice


Log = dict[str, float]
"""What a job does, and how it is read: ``epochs`` of usually ``epoch_s`` [s], of which ``idle`` (at its start) and
``validation`` (at its end) are shares; relative standard deviations of an epoch's length (``variation``) and of a reading
(``noise``); ``lead_s``, ``tail_s`` [s] without a job; utilisations while it trains, ``power`` as a share of what the device may
draw beyond its ready state, ``memory`` as a share of the device's."""


def logged(rng: np.random.Generator) -> Log:
    """A log of nvidia-smi: a reading every second, epochs of 12 to 120 s that begin with a wait for data."""
    return {
        "epochs": int(rng.integers(8, 31)),
        "epoch_s": rng.uniform(12, 120),
        "idle": rng.uniform(0.03, 0.5),
        "validation": rng.uniform(0, 0.2) if rng.random() < 2 / 3 else 0.0,
        "variation": rng.uniform(0.01, 0.03),
        "noise": rng.uniform(0.01, 0.03),
        "lead_s": rng.uniform(5, 180),
        "tail_s": rng.uniform(5, 180),
        "utilization": rng.uniform(0.5, 0.98),
        "memory_utilization": rng.uniform(0.15, 0.7),
        "power": rng.uniform(0.3, 0.85),
        "memory": rng.uniform(0.1, 0.9),
    }


def read(cls: str, seed: int, log: Log, rng: np.random.Generator) -> SimulatedTrace:
    """The trace of a log on one of the devices: each reading is the mean of its second, of power that of the second before."""
    device = DEVICES[rng.integers(len(DEVICES))]
    lengths = log["epoch_s"] * (1 + log["variation"] * rng.standard_normal(int(log["epochs"])))
    parts = np.outer(lengths, [log["idle"], 1 - log["idle"] - log["validation"], log["validation"]])
    ends = log["lead_s"] + np.cumsum(parts)
    seconds = np.arange(int(ends[-1] + log["tail_s"]) + 1, dtype=np.float64)
    done = np.concatenate([[0.0], np.cumsum(parts * [0.0, 1.0, _VALIDATION])])
    active = np.diff(np.interp(seconds, [log["lead_s"], *ends], done))
    present = np.diff(np.clip(seconds, log["lead_s"], ends[-1]))  # share of a second in which there is a process

    ready_w = device.parked_w + (device.ready_w - device.parked_w) * present
    watts = ready_w + log["power"] * (device.power_limit_w - device.ready_w) * active
    mib = 2.0**20
    metrics = {
        # NVML gives whole percents.
        "gpu_utilization": np.round(np.clip(log["utilization"] * active * _noise(log, active.size, rng), 0, 1), 2),
        "memory_utilization": np.round(np.clip(log["memory_utilization"] * active * _noise(log, active.size, rng), 0, 1), 2),
        "power_average": np.round(np.concatenate([watts[:1], watts[:-1]]) * _noise(log, active.size, rng), 2),
        "memory_used": mib * np.round((3e8 + 0.9 * log["memory"] * device.memory_bytes * (present > 0.5)) / mib),
    }
    start = 1_700_000_000.0 + float(rng.integers(10**7))
    edges = start + np.concatenate([[log["lead_s"]], ends[2::3]])
    return SimulatedTrace(
        time=start + seconds[1:] + rng.uniform(-0.005, 0.005, active.size),
        metrics=metrics,
        epoch_starts=edges[:-1],
        epoch_ends=edges[1:],
        training=True,
        gpu=device.name,
        cls=cls,
        settings={"seed": seed, "log": log},
    )


def _noise(log: Log, count: int, rng: np.random.Generator) -> Array:
    return 1 + log["noise"] * rng.standard_normal(count)
