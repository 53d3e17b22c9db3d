"""Names of telemetry in a time-series database -> columns of the metric catalogue: the agent's own, and dcgm-exporter's."""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Column -> unit suffix of the agent's name for it. (The agent's catalogue is not ours to load; a test compares the two.)
_GPU_SUFFIXES = {
    "gr_engine_active": "ratio",
    "sm_active": "ratio",
    "sm_occupancy": "ratio",
    "tensor_active": "ratio",
    "dram_active": "ratio",
    "fp64_active": "ratio",
    "fp32_active": "ratio",
    "fp16_active": "ratio",
    "pcie_tx": "bytes_per_second",
    "pcie_rx": "bytes_per_second",
    "nvlink_tx": "bytes_per_second",
    "nvlink_rx": "bytes_per_second",
    "gpu_utilization": "ratio",
    "memory_utilization": "ratio",
    "power": "watts",
    "power_average": "watts",
    "energy": "joules_total",
    "sm_clock": "hertz",
    "memory_clock": "hertz",
    "temperature": "celsius",
    "memory_used": "bytes",
    "memory_free": "bytes",
    "bar1_used": "bytes",
    "bar1_free": "bytes",
    "power_limit": "watts",
    "pcie_link_width": "lanes",
    "xid_errors": "total",
}
_HOST_SUFFIXES = {
    "cpu_utilization": "ratio",
    "rss": "bytes",
    "minor_faults": "per_second",
    "context_switches": "per_second",
    "disk_read": "bytes_per_second",
    "disk_write": "bytes_per_second",
}

#: The agent's name of the newest value -> column.
AGENT_NAMES = {f"epochcast_gpu_{column}_{suffix}": column for column, suffix in _GPU_SUFFIXES.items()} | {
    f"epochcast_host_{column}_{suffix}": column for column, suffix in _HOST_SUFFIXES.items()
}

MIB = 2.0**20

#: dcgm-exporter's name -> (column, factor to its base unit).
DCGM_EXPORTER_NAMES = {
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock", 1e6),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock", 1e6),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("power", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy", 1e-3),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization", 1e-2),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilization", 1e-2),
    "DCGM_FI_DEV_FB_FREE": ("memory_free", MIB),
    "DCGM_FI_DEV_FB_USED": ("memory_used", MIB),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gr_engine_active", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active", 1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy", 1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active", 1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("fp64_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("fp32_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("fp16_active", 1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx", 1.0),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx", 1.0),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("nvlink_tx", 1.0),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("nvlink_rx", 1.0),
}

Part = Literal["last", "window", "integral"]


class Meaning(NamedTuple):
    """What a series holds: ``part`` is the newest value, the mean over the agent's window, or the integral over time."""

    column: str
    part: Part
    factor: float = 1.0


def _agent_meanings() -> dict[str, Meaning]:
    meanings = {}
    for name, column in AGENT_NAMES.items():
        meanings[name] = Meaning(column, "last")
        if not name.endswith("_total"):
            meanings[f"{name}_avg"] = Meaning(column, "window")
        if name.endswith("_ratio"):
            meanings[f"{name.removesuffix('_ratio')}_seconds_total"] = Meaning(column, "integral")
    return meanings


#: Series by the way they came into the database. Remote write sends every sample under the name of the newest value.
WRITTEN = {name: Meaning(column, "last") for name, column in AGENT_NAMES.items()}
SCRAPED = _agent_meanings()
DCGM_EXPORTER = {name: Meaning(column, "last", factor) for name, (column, factor) in DCGM_EXPORTER_NAMES.items()}
