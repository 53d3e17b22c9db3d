"""What one process's phases do to each metric: plausible activity levels, by choice, not measured ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lab.simulator.devices import T4, SimulatedDevice
from lab.simulator.timeline import Phase

Array = NDArray[np.float64]

# Mean level of each fast metric in each phase: ratios, and bytes/s for PCIe (rx: host to device, tx: device to host), for a
# convolutional network that fills a T4.
_T4_LEVELS: dict[str, tuple[float, ...]] = {
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

_PCIE = ("pcie_rx", "pcie_tx")
_SHADES = ("sm_active", "tensor_active", "dram_active", "pcie_rx")
_IN_STEP = (Phase.WAIT, Phase.COPY, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)


@dataclass(frozen=True)
class SimulatedWorkload:
    """One process's habits on one device.

    Attributes:
        levels: metric -> (phases,), ratios and bytes/s.
        memory: share of the device memory that it takes.
        frees_cache: whether it gives memory back whenever it validates or waits.
    """

    levels: dict[str, Array]
    memory: float
    frees_cache: bool = False


def textbook(rng: np.random.Generator) -> SimulatedWorkload:
    """The table's network on a T4, each metric a few percent up or down."""
    return SimulatedWorkload(
        {name: np.array(levels) * rng.lognormal(0, 0.06) for name, levels in _T4_LEVELS.items()}, memory=0.58
    )


def draw(device: SimulatedDevice, step: tuple[float, ...], contrast: float, rng: np.random.Generator) -> SimulatedWorkload:
    """Some model on a device, no two alike: precision, size, memory traffic, input, and how validation differs from training.

    Args:
        device: where it runs.
        step: shares of a training step spent waiting, copying, forward, backward and updating; their sum is 1.
        contrast: by how much validation differs from the mean training step in the two metrics (of four) where it does most,
            0 .. 1; in the others it may hardly differ.
        rng: source of randomness.
    """
    levels = {name: np.array(values) for name, values in _T4_LEVELS.items()}
    # A network that fills a T4 leaves part of an H100 idle, though its owner will have chosen a larger batch.
    fill = rng.uniform(0.3, 1.1) * device.size ** -rng.uniform(0.0, 0.35)
    for name in ("sm_active", "sm_occupancy", "tensor_active", "dram_active", "fp32_active", "fp16_active"):
        levels[name] *= fill * rng.lognormal(0, 0.25)
    precision = rng.choice(["mixed", "single", "half"], p=[0.5, 0.3, 0.2])
    if precision == "single":
        levels["tensor_active"][:] = 0
        levels["fp16_active"][:] = 0
        levels["fp32_active"] *= rng.uniform(1.5, 3)
    elif precision == "half":
        levels["tensor_active"] *= rng.uniform(1.2, 1.8)
        levels["fp32_active"] *= rng.uniform(0.2, 0.5)
    for name in _PCIE:
        levels[name] *= device.pcie_bytes_s / T4.pcie_bytes_s * rng.uniform(0.3, 1)
    if rng.random() < 0.25:  # the whole data set is on the device: only results are copied
        levels["pcie_rx"][[Phase.COPY, Phase.VALIDATE]] = levels["pcie_rx"][Phase.FORWARD]
    for values in levels.values():
        for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.SERVE):
            values[phase] *= rng.lognormal(0, 0.12)
    _shade_validation(levels, step, contrast, rng)
    return SimulatedWorkload(levels, memory=rng.uniform(0.1, 0.9), frees_cache=bool(rng.random() < 0.2))


def _shade_validation(levels: dict[str, Array], step: tuple[float, ...], contrast: float, rng: np.random.Generator) -> None:
    """Set what validation does: a network without its backward pass moves less memory, and takes its input faster."""
    strong = rng.permutation([name for name in _SHADES if levels[name][Phase.FORWARD] > 0])[:2]
    for name, values in levels.items():
        mean = float(np.dot(step, values[list(_IN_STEP)]))
        change = rng.uniform(0.7, 1.3) * contrast if name in strong else rng.uniform(0, 0.25) * contrast
        up = name == "pcie_rx" or rng.random() < 0.2
        values[Phase.VALIDATE] = mean * (1 + 2 * change if name == "pcie_rx" else 1 + change if up else 1 - change)
