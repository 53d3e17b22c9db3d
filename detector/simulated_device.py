"""What a Tesla T4 would read while a simulated job goes through its phases; plausible activity levels, not measured ones.

The device's own figures (70 W, 585-1590 MHz, 15109 MiB, PCIe 3.0 x8) are those that nvidia-smi shows on a T4 in the cloud.
Power, energy, clocks and temperature follow from the activities.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

NAME = "Tesla T4"
TICK_S = 0.1
_SLOW_TICKS = 10  # utilisation, clocks, temperature and memory are read once a second

_MEMORY_TOTAL = 15109 * 2**20
_BAR1_TOTAL = 256 * 2**20
_POWER_LIMIT_W = 70.0
_PARKED_W, _READY_W = 10.0, 27.0  # without and with a process on the GPU (P8, P0)
_BOOST_HZ, _BASE_HZ, _PARKED_HZ = 1590e6, 585e6, 300e6
_MEMORY_HZ, _MEMORY_PARKED_HZ = 5000e6, 405e6


class Phase(IntEnum):
    """What the job does at one moment; the columns of the table of levels."""

    PARKED, WAIT, SETUP, COPY, FORWARD, BACKWARD, UPDATE, VALIDATE, SAVE, SERVE = range(10)


# Mean level of each fast metric in each phase: ratios, and bytes/s for PCIe (rx: host to device, tx: device to host).
_LEVELS: dict[str, tuple[float, ...]] = {
    #                  parked wait  setup copy  fwd   bwd   upd   valid save  serve
    "gr_engine_active": (0.0, 0.00, 0.06, 0.16, 0.97, 0.98, 0.92, 0.86, 0.10, 0.88),
    "sm_active":        (0.0, 0.00, 0.02, 0.05, 0.82, 0.86, 0.55, 0.70, 0.03, 0.52),
    "sm_occupancy":     (0.0, 0.00, 0.01, 0.02, 0.42, 0.46, 0.38, 0.40, 0.02, 0.22),
    "tensor_active":    (0.0, 0.00, 0.00, 0.00, 0.30, 0.33, 0.00, 0.28, 0.00, 0.20),
    "dram_active":      (0.0, 0.00, 0.02, 0.06, 0.45, 0.58, 0.74, 0.33, 0.08, 0.26),
    "fp32_active":      (0.0, 0.00, 0.00, 0.00, 0.16, 0.18, 0.24, 0.12, 0.00, 0.09),
    "fp16_active":      (0.0, 0.00, 0.00, 0.00, 0.08, 0.09, 0.02, 0.07, 0.00, 0.05),
    "pcie_rx":          (0.0, 2e6,  1.1e9, 5.5e9, 6e7, 7e7, 3e7,  8.5e8, 2e7, 4.2e8),
    "pcie_tx":          (0.0, 2e6,  4e7,  9e7,  3e7,  3e7,  4e7,  6e7,  2.4e9, 5e7),
}  # fmt: skip


def measure(share: Array, rng: np.random.Generator) -> dict[str, Array]:
    """All metrics of a timeline, each of shape (ticks,) in base units.

    ``share``: which part of each tick the job spends in each phase, shape (ticks, phases).
    """
    ticks = len(share)
    seconds = TICK_S * np.arange(ticks)
    # One job is not like another: its own level per metric, and a slow common drift (input mix, fragmentation).
    drift = 1 + 0.02 * np.sin(2 * np.pi * (seconds / rng.uniform(90, 240) + rng.uniform()))
    fast: dict[str, Array] = {}
    for name, levels in _LEVELS.items():
        noise = 1 + 0.015 * rng.standard_normal(ticks)
        values = share @ np.array(levels) * rng.lognormal(0, 0.06) * drift * noise
        fast[name] = np.clip(values, 0, None if name.startswith("pcie") else 1.0)

    parked = share[:, Phase.PARKED]
    ready = _READY_W + (_PARKED_W - _READY_W) * parked
    # Dynamic power grows with about the square of the clock (which takes voltage along), so the cap sets the clock.
    dynamic = 27 * fast["sm_active"] + 32 * fast["tensor_active"] + 32 * fast["dram_active"]
    clock = np.sqrt(np.minimum(1, (_POWER_LIMIT_W - ready) / np.maximum(dynamic, 1)))
    watts = (ready + dynamic * clock**2) * (1 + 0.01 * rng.standard_normal(ticks))
    temperature = _lagged(36 + 0.68 * (watts - _PARKED_W), lag_s=45.0, first=36.0)

    running = np.maximum(_BASE_HZ, 15e6 * np.round(_BOOST_HZ * clock / 15e6))  # clocks come in steps of 15 MHz
    busy = _last_second(fast["gr_engine_active"])
    active = busy > 0.01
    used = 3e8 + 9.2e9 * _once_on(parked) + 4e8 * _once_on(1 - share[:, Phase.VALIDATE])
    bar1 = 2.0 * 2**20 + 3.0 * 2**20 * _once_on(parked)
    for gone in (used, bar1):
        gone[parked > 0.5] = gone[0]  # the process, and with it its memory, is not there yet or no more
    slow = {
        "gpu_utilization": np.round(busy, 2),  # NVML gives whole percents
        "memory_utilization": np.round(_last_second(fast["dram_active"]), 2),
        "sm_clock": np.where(parked > 0.5, _PARKED_HZ, np.where(active, running, _BASE_HZ)),
        "memory_clock": np.where(parked > 0.5, _MEMORY_PARKED_HZ, _MEMORY_HZ),
        "temperature": np.round(temperature),
        "memory_used": used,
        "memory_free": _MEMORY_TOTAL - used,
        "bar1_used": bar1,
        "bar1_free": _BAR1_TOTAL - bar1,
    }
    unread = np.arange(ticks) % _SLOW_TICKS != 0
    return {
        **fast,
        "power": np.round(_lagged(watts, lag_s=0.4, first=watts[0]), 2),
        "energy": np.round(1e6 + np.cumsum(watts) * TICK_S, 3),
        **{name: np.where(unread, np.nan, values) for name, values in slow.items()},
    }


def _lagged(values: Array, *, lag_s: float, first: float) -> Array:
    """First-order low pass with time constant ``lag_s`` [s]."""
    keep = float(np.exp(-TICK_S / lag_s))
    out = np.empty_like(values)
    level = first
    for tick, value in enumerate(values.tolist()):
        level = keep * level + (1 - keep) * value
        out[tick] = level
    return out


def _last_second(values: Array) -> Array:
    """Mean over the second that ends at each tick."""
    total = np.concatenate([np.zeros(_SLOW_TICKS), np.cumsum(values)])
    mean: Array = (total[_SLOW_TICKS:] - total[:-_SLOW_TICKS]) / _SLOW_TICKS
    return mean


def _once_on(off: Array) -> Array:
    """1 from the first tick on at which ``off`` is below a half, else 0."""
    return np.maximum.accumulate((off < 0.5).astype(np.float64))
