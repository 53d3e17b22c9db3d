"""The GPUs that can be simulated: plausible figures, as nvidia-smi and the vendor's data sheets show them.

What neither shows is by choice: `hunger`, `pcie_bytes_s`, `power_lag_s`, `kelvin_per_w` and `size`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SimulatedDevice:
    """One kind of GPU.

    Attributes:
        name: as nvidia-smi gives it.
        power_limit_w, parked_w, ready_w: the cap [W], and the draw without (P8) and with (P0) a process that does nothing.
        hunger: dynamic power of a fully active chip at full clock, as a share of what the cap leaves above `ready_w`.
        boost_hz, base_hz, parked_hz: SM clock at most, under load at least, and without a process.
        memory_hz, memory_parked_hz: memory clock with and without a process.
        memory_bytes, bar1_bytes: sizes of the device memory and of the BAR1 window.
        pcie_bytes_s: what the link carries from pinned memory [bytes/s].
        power_lag_s: time constant of the power sensor.
        kelvin_per_w: warming by power, once settled.
        size: throughput relative to a T4; a small model leaves much of a large device idle.
    """

    name: str
    power_limit_w: float
    parked_w: float
    ready_w: float
    hunger: float
    boost_hz: float
    base_hz: float
    parked_hz: float
    memory_hz: float
    memory_parked_hz: float
    memory_bytes: float
    bar1_bytes: float
    pcie_bytes_s: float
    power_lag_s: float
    kelvin_per_w: float
    size: float


_MHZ, _MIB = 1e6, 2.0**20

T4 = SimulatedDevice(
    "Tesla T4", 70, 10, 27, 1.5, 1590 * _MHZ, 585 * _MHZ, 300 * _MHZ, 5000 * _MHZ, 405 * _MHZ,
    15109 * _MIB, 256 * _MIB, 6e9, 0.4, 0.68, 1.0,
)  # fmt: skip

DEVICES = (
    T4,
    SimulatedDevice(
        "NVIDIA L4", 72, 12, 28, 1.4, 2040 * _MHZ, 795 * _MHZ, 210 * _MHZ, 6251 * _MHZ, 405 * _MHZ,
        23034 * _MIB, 32768 * _MIB, 12e9, 0.3, 0.62, 1.8,
    ),
    SimulatedDevice(
        "Tesla V100-SXM2-16GB", 300, 38, 58, 1.0, 1530 * _MHZ, 1290 * _MHZ, 135 * _MHZ, 877 * _MHZ, 877 * _MHZ,
        16160 * _MIB, 16384 * _MIB, 12e9, 0.1, 0.13, 2.0,
    ),
    SimulatedDevice(
        "NVIDIA A10G", 300, 16, 58, 0.95, 1710 * _MHZ, 885 * _MHZ, 210 * _MHZ, 6251 * _MHZ, 405 * _MHZ,
        23028 * _MIB, 32768 * _MIB, 12e9, 0.2, 0.14, 2.0,
    ),
    SimulatedDevice(
        "NVIDIA A100-SXM4-40GB", 400, 46, 62, 1.0, 1410 * _MHZ, 1095 * _MHZ, 210 * _MHZ, 1215 * _MHZ, 1215 * _MHZ,
        40536 * _MIB, 65536 * _MIB, 24e9, 0.1, 0.08, 3.5,
    ),
    SimulatedDevice(
        "NVIDIA H100 80GB HBM3", 700, 70, 115, 0.95, 1980 * _MHZ, 1095 * _MHZ, 345 * _MHZ, 2619 * _MHZ, 2619 * _MHZ,
        81559 * _MIB, 131072 * _MIB, 50e9, 0.1, 0.055, 6.0,
    ),
)  # fmt: skip
