"""What the device reads while processes go through their phases.

Fast fields are means over a tick, as DCGM's profiling fields average over their interval; power, energy, clocks and temperature
follow from the activities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lab.simulator.devices import SimulatedDevice
from lab.simulator.timeline import TICK_S, Phase, SimulatedTimeline
from lab.simulator.training import wander
from lab.simulator.workload import SimulatedWorkload

Array = NDArray[np.float64]

# By choice where nothing else is said: plausible figures, not measured, here and in what activities bring about.
_SLOW_TICKS = 10  # utilisation, clocks, temperature and memory are read once a second, as by the agent (agent/metrics.toml)
_AMBIENT_C = 36.0
_WARMING_S = 45.0


@dataclass(frozen=True)
class Noise:
    """How unsteady readings are.

    Attributes:
        tick: standard deviation of one reading, relative.
        tick_s: time constant with which a reading's deviation fades [s].
        drift: standard deviation of the slow change of all levels together, and again of each one on its own, relative.
        drift_s: time constant of that change [s].
    """

    tick: float = 0.015
    tick_s: float = 0.02
    drift: float = 0.015
    drift_s: float = 60.0


def measure(
    processes: Sequence[tuple[SimulatedTimeline, SimulatedWorkload]],
    device: SimulatedDevice,
    noise: Noise,
    ticks: int,
    rng: np.random.Generator,
) -> dict[str, Array]:
    """All metrics of some processes on one device, each of shape (ticks,) in base units.

    Args:
        processes: what each process does, and what its phases do to the metrics. All begin at time 0.
        device: where they run.
        noise: of the readings.
        ticks: how many to read.
        rng: source of randomness.
    """
    shares = [timeline.shares(ticks) for timeline, _ in processes]
    throttle = np.min([timeline.clocks(ticks) for timeline, _ in processes], axis=0)
    common = wander(noise.drift, TICK_S / noise.drift_s, ticks, rng)
    fast: dict[str, Array] = {}
    for name in processes[0][1].levels:
        active = [share @ work.levels[name] for share, (_, work) in zip(shares, processes, strict=True)]
        if name.startswith("pcie"):
            level, most = np.sum(active, axis=0), device.pcie_bytes_s
        else:  # kernels of several processes take turns
            level, most = 1 - np.prod([1 - np.minimum(share, 1.0) for share in active], axis=0), 1.0
        if name in ("dram_active", "pcie_rx", "pcie_tx"):
            level = level * throttle  # the same bytes in a longer time
        own = wander(noise.drift, TICK_S / (noise.drift_s * rng.uniform(0.5, 2)), ticks, rng)
        unsteady = wander(noise.tick * rng.lognormal(0, 0.4), TICK_S / noise.tick_s, ticks, rng)
        fast[name] = np.clip(level * (1 + common + own) * (1 + unsteady), 0, most)

    parked = np.min([share[:, Phase.PARKED] for share in shares], axis=0)
    power, energy, states = _consequences(fast, parked, throttle, device, rng)
    used, bar1 = _memory(shares, [work for _, work in processes], device)
    slow = {
        "gpu_utilization": np.round(_last_second(fast["gr_engine_active"]), 2),  # NVML gives whole percents
        "memory_utilization": np.round(_last_second(fast["dram_active"]), 2),
        **states,
        "memory_used": used,
        "memory_free": device.memory_bytes - used,
        "bar1_used": bar1,
        "bar1_free": device.bar1_bytes - bar1,
    }
    unread = np.arange(ticks) % _SLOW_TICKS != 0
    return {
        **fast,
        "power": power,
        "energy": energy,
        **{name: np.where(unread, np.nan, values) for name, values in slow.items()},
    }


def _consequences(
    fast: dict[str, Array], parked: Array, throttle: Array, device: SimulatedDevice, rng: np.random.Generator
) -> tuple[Array, Array, dict[str, Array]]:
    """Power [W], energy [J], and clocks [Hz] and temperature [°C] that the activities bring about."""
    ready = device.ready_w + (device.parked_w - device.ready_w) * parked
    activity = 0.42 * fast["sm_active"] + 0.5 * fast["tensor_active"] + 0.5 * fast["dram_active"] + 0.2 * fast["fp32_active"]
    dynamic = device.hunger * (device.power_limit_w - device.ready_w) * activity
    # Dynamic power grows with about the square of the clock (which takes voltage along), so the cap sets the clock.
    capped = np.sqrt(np.minimum(1, (device.power_limit_w - ready) / np.maximum(dynamic, 1)))
    clock = np.minimum(capped, throttle)
    watts = ready + dynamic * clock**2
    warm = _lagged(device.kelvin_per_w * (watts - device.parked_w), lag_s=_WARMING_S, first=0.0)
    watts = watts * (1 + 0.001 * warm) * (1 + 0.01 * rng.standard_normal(watts.size))  # a warm chip leaks
    bins = 15e6  # clocks come in steps of 15 MHz; boost loses one every few degrees
    running = bins * np.round((device.boost_hz * clock - bins * np.floor(warm / 8)) / bins)
    active = _last_second(fast["gr_engine_active"]) > 0.01
    states = {
        "sm_clock": np.where(
            parked > 0.5, device.parked_hz, np.where(active, np.maximum(device.base_hz, running), device.base_hz)
        ),
        "memory_clock": np.where(parked > 0.5, device.memory_parked_hz, device.memory_hz),
        "temperature": np.round(_AMBIENT_C + warm),
    }
    power = np.round(_lagged(watts, lag_s=device.power_lag_s, first=watts[0]), 2)
    return power, np.round(1e6 + np.cumsum(watts) * TICK_S, 3), states


def _memory(shares: Sequence[Array], works: Sequence[SimulatedWorkload], device: SimulatedDevice) -> tuple[Array, Array]:
    """Device memory and BAR1 window in use [bytes]: taken when a process first needs it, given back when it ends."""
    ticks = len(shares[0])
    used = np.full(ticks, 3e8)
    bar1 = np.full(ticks, 2.0 * 2**20)
    for share, work in zip(shares, works, strict=True):
        present = share[:, Phase.PARKED] <= 0.5
        limit = work.memory * 0.9 * device.memory_bytes / len(works)
        needed = np.maximum.accumulate((share[:, Phase.FORWARD] + share[:, Phase.SERVE] > 0).astype(np.float64))
        taken = limit * (0.3 + 0.65 * needed)
        taken += 0.05 * limit * np.maximum.accumulate((share[:, Phase.VALIDATE] > 0.5).astype(np.float64))
        if work.frees_cache:
            taken -= 0.15 * limit * (share[:, Phase.VALIDATE] + share[:, Phase.SAVE] > 0.5)
        used = used + np.where(present, taken, 0.0)
        bar1 = bar1 + np.where(present, 3.0 * 2**20, 0.0)
    return used, bar1


def _lagged(values: Array, *, lag_s: float, first: float) -> Array:
    """First-order low pass with time constant `lag_s` [s]."""
    keep = float(np.exp(-TICK_S / lag_s))
    out, _ = lfilter([1 - keep], [1.0, -keep], values, zi=[keep * first])
    return np.asarray(out)


def _last_second(values: Array) -> Array:
    """Mean over the second that ends at each tick."""
    total = np.concatenate([np.zeros(_SLOW_TICKS), np.cumsum(values)])
    return np.asarray((total[_SLOW_TICKS:] - total[:-_SLOW_TICKS]) / _SLOW_TICKS)
