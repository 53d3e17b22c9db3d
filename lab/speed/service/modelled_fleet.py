"""A modelled, not measured, fleet of three nodes, known exactly at each moment; modelled_series.py has what it exports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

SCRAPE_S = 15.0
WINDOW_S = 10.0
"""Of the agents' ``_avg``, ``_min`` and ``_max``."""
WORKING = 0.85
"""Share of an epoch that is training; the rest is validation, with little to do."""
TICK = (0.001, 0.0025)
"""Every tick of the agents takes a time between these two bounds of the histogram."""

COUNTED_SINCE = 1.69e9
"""When all counters were 0 [unix s]."""

SAVINGS_OF_ALL = 123.0
"""USD an hour that the jobs would save, with those that have no metrics of their own."""

LEVELS = {
    "gr_engine_active": (0.97, 0.35),
    "sm_active": (0.92, 0.22),
    "sm_occupancy": (0.48, 0.1),
    "tensor_active": (0.41, 0.05),
    "dram_active": (0.63, 0.12),
    "fp64_active": (0.0, 0.0),
    "fp32_active": (0.18, 0.04),
    "fp16_active": (0.07, 0.01),
    "pcie_tx": (1.1e9, 0.2e9),
    "pcie_rx": (6.3e9, 2.0e9),
    "nvlink_tx": (41e9, 1e9),
    "nvlink_rx": (40e9, 1e9),
    "gpu_utilization": (0.99, 0.4),
    "memory_utilization": (0.55, 0.1),
    "power": (610.0, 210.0),
    "power_average": (605.0, 215.0),
    "energy": (610.0, 210.0),
    "sm_clock": (1.755e9, 1.98e9),
    "memory_clock": (2.619e9, 2.619e9),
    "temperature": (64.0, 52.0),
    "memory_used": (61e9, 61e9),
    "memory_free": (24e9, 24e9),
    "bar1_used": (2e6, 2e6),
    "bar1_free": (137e9, 137e9),
    "power_limit": (700.0, 700.0),
    "pcie_link_width": (16.0, 16.0),
    "ofu": (0.37, 0.04),
    "held_idle": (0.0, 0.3),
    "throttled_power_cap": (0.11, 0.0),
    "throttled_thermal": (0.02, 0.0),
    "throttled_hardware_thermal": (0.0, 0.0),
    "throttled_power_brake": (0.0, 0.0),
    "throttled_board_limit": (0.0, 0.0),
    "throttled_clock_setting": (0.0, 0.0),
    "memory_temperature": (81.0, 60.0),
    "ecc_uncorrectable_errors": (0.0, 0.0),
    "nvlink_replay_errors": (0.002, 0.001),
    "pcie_replays": (0.01, 0.01),
}
"""Of each column while a GPU trains, and while it validates."""
RATIOS = {
    "A100 SXM4 80GB": 1.62,
    "L40S": 2.05,
    "L4": 5.4,
    "H100 SXM5": 1.0,
    "H200 SXM": 0.86,
    "V100 SXM2 16GB": 3.3,
    "A10G": 4.1,
}
"""Seconds on another GPU over seconds on an H100."""

IDLE = {"epoch": ("epoch", 0.14), "step": ("step", 0.07), "cycle": ("checkpoint", 0.91)}
"""Kind of the cycle by the unit of a job's answer, and the share of it in which its GPUs wait."""


@dataclass(frozen=True)
class Gpu:
    """A GPU whose job began at ``began`` [unix s], idle before.

    ``node_detects``: its epochs are found by an analyzer on its node, not by the service. ``pushed``: its agent is not scraped,
    but writes remotely.
    """

    node: str
    index: int
    name: str
    began: float
    epoch_s: float | None = None
    step_s: float | None = None
    cycle_s: float | None = None
    confidence: float = 0.97
    node_detects: bool = False
    pushed: bool = False

    @property
    def uuid(self) -> str:
        """Its UUID."""
        return f"GPU-{self.node}-{self.index}"

    @cached_property
    def ends(self) -> np.ndarray:
        """Ends of its epochs [unix s] of two days; their lengths differ by a hundredth."""
        if self.epoch_s is None:
            return np.array([])
        numbers = np.arange(math.ceil(2 * 86400 / self.epoch_s))
        return self.began + np.cumsum(self.epoch_s * (1 + 0.01 * np.sin(2.4 * numbers + self.index)))

    def ended(self, moment: float) -> int:
        """Epochs that have ended."""
        return int(np.searchsorted(self.ends, moment, "right"))

    def state(self, moment: float) -> str:
        """What its detector is in; five epochs, or a minute of steps, are searched for."""
        if moment < self.began:
            return "idle"
        period_s = self.step_s or self.cycle_s
        known = self.ended(moment) >= 5 if self.epoch_s else period_s is not None and moment > self.began + 60
        return "answered" if known else "searching"

    def training_seconds(self, moment: float) -> float:
        """Time since its job began that it spent training and not validating."""
        if moment < self.began or self.epoch_s is None:
            return max(0.0, moment - self.began)
        done = self.ended(moment)
        start = self.began if done == 0 else self.ends[done - 1]
        return float(WORKING * (start - self.began) + min(moment - start, WORKING * (self.ends[done] - start)))

    def level(self, column: str, moment: float) -> float:
        """A column's value now."""
        high, low = LEVELS[column]
        trains = self.training_seconds(moment + 1e-3) > self.training_seconds(moment)
        return 0.02 * low if moment < self.began and column != "memory_free" else high if trains else low

    def integral(self, column: str, moment: float) -> float:
        """A column's integral since its job began."""
        high, low = LEVELS[column]
        return low * max(0.0, moment - self.began) + (high - low) * self.training_seconds(moment)

    def mean(self, column: str, since: float, until: float) -> float:
        """A column's mean between two moments of its job."""
        return (self.integral(column, until) - self.integral(column, since)) / (until - since)


@dataclass(frozen=True)
class Job:
    """A training job.

    ``recommended``: by objective (instance, GPU, USD and time ratio). ``usd_per_hour``, ``relative``: of where it runs now; the
    latter is how many times as long as an H100 its GPU takes.
    """

    id: str
    title: str
    gpus: tuple[Gpu, ...]
    recommended: dict[str, tuple[str, str, float, float]]
    source_gpu: str
    instance_type: str
    usd_per_hour: float
    relative: float

    @property
    def seconds(self) -> float | None:
        """Of an epoch (or step) on its slowest GPU."""
        lengths = [gpu.epoch_s or gpu.step_s or gpu.cycle_s for gpu in self.gpus]
        return max(length for length in lengths if length) if all(lengths) else None

    @property
    def spread(self) -> float:
        """How much longer the slowest GPU's epochs take than the fastest's."""
        lengths = [gpu.epoch_s for gpu in self.gpus if gpu.epoch_s]
        return max(lengths) / min(lengths) - 1 if lengths else 0.0

    @property
    def usd(self) -> float | None:
        """Of an epoch (or step) now."""
        return None if self.seconds is None else self.usd_per_hour * self.seconds / 3600

    def ratio(self, target: str) -> tuple[float, float, float, float]:
        """Ratio to another GPU with its interval, and support."""
        ratio = RATIOS[target] / self.relative
        support = 0.35 if target == "V100 SXM2 16GB" else 0.96 / self.relative**0.1
        width = 1.35 if support < 0.5 else 1.12
        return ratio, ratio / width, ratio * width, support


def fleet(end: float) -> tuple[Job, ...]:
    """Return the jobs as they are at ``end`` [unix s]; all began more than an hour before."""
    a100 = partial(Gpu, "gpu-b", name="NVIDIA A100-SXM4-80GB")
    on_a100 = partial(Job, source_gpu="A100 SXM4 80GB", instance_type="p4de.24xlarge", usd_per_hour=27.45, relative=1.62)
    four = tuple(
        Gpu("gpu-a", n, "NVIDIA H100 80GB HBM3", end - 9000, 134.4 if n == 3 else 120.0, node_detects=True) for n in range(4)
    )
    two = tuple(a100(n, began=end - 6400, epoch_s=300.0, confidence=0.91) for n in range(2))
    steps = a100(2, began=end - 5000, step_s=0.84, confidence=0.88)
    saves = a100(4, began=end - 4800, cycle_s=17.6, confidence=0.95)
    unsure = a100(3, began=end - 4200, confidence=0.0)
    l40s, h100 = ("g6e.12xlarge", "L40S"), ("p5.48xlarge", "H100 SXM5", 1.24, 0.62)
    best = {"cost": ("g6e.48xlarge", "L40S", 0.58, 2.05), "time": ("p5e.48xlarge", "H200 SXM", 1.22, 0.86)}
    container, container_title = "container-3f2a91c0de77", "container 3f2a91c0de77 on gpu-b"
    return (
        Job("slurm-4711", "Slurm job 4711", four, best, "H100 SXM5", "p5.48xlarge", 55.04, 1.0),
        on_a100(container, container_title, two, {"cost": (*l40s, 0.75, 1.27), "time": h100}),
        on_a100("gpu-b-2107", "process python (2107) on gpu-b", (steps,), {"cost": (*l40s, 1.1, 1.27), "time": h100}),
        on_a100("gpu-GPU-gpu-b-4", "GPU 4 of gpu-b", (saves,), {"cost": (*l40s, 0.9, 1.27), "time": h100}),
        on_a100("gpu-GPU-gpu-b-3", "GPU 3 of gpu-b", (unsure,), {}),
    )


def spare(end: float) -> Gpu:
    """Return the GPU that has had no job yet at ``end`` [unix s]."""
    return Gpu("gpu-c", 0, "NVIDIA L4", end + 86400, confidence=0.0, pushed=True)
