"""What every source calls a metric, and in which unit: the one table of all readers.

Columns are those of the metric catalogue, values in base units. Databases and their exports name series (`WRITTEN`, `SCRAPED`,
`DCGM_EXPORTER`), logs and tables have titles (`LOGGED`, `meaning_of`), a run of wandb has keys (`WANDB`).
"""

from __future__ import annotations

import math
import re
from typing import Literal, NamedTuple

from epochcast.dcgm_names import BLANK, ENERGY_BLANK, LAST_XID, MIB, NAMES, SHORT_NAMES
from epochcast.regressor.profile import THROTTLED

#: Column -> unit suffix of the agent's name for it. (The agent's catalogue is not ours to load; a test compares the two.)
_GPU_SUFFIXES = {
    **dict.fromkeys(("gr_engine_active", "sm_active", "sm_occupancy", "tensor_active", "dram_active"), "ratio"),
    **dict.fromkeys(("fp64_active", "fp32_active", "fp16_active", "gpu_utilization", "memory_utilization"), "ratio"),
    **dict.fromkeys(("pcie_tx", "pcie_rx", "nvlink_tx", "nvlink_rx"), "bytes_per_second"),
    **dict.fromkeys(("power", "power_average", "power_limit"), "watts"),
    **dict.fromkeys(("sm_clock", "memory_clock"), "hertz"),
    **dict.fromkeys(("memory_used", "memory_free", "bar1_used", "bar1_free"), "bytes"),
    **dict.fromkeys(THROTTLED, "ratio"),
    **dict.fromkeys(("fan_speed", "encoder_utilization", "decoder_utilization", "ofu", "held_idle"), "ratio"),
    **dict.fromkeys(("temperature", "memory_temperature"), "celsius"),
    **dict.fromkeys(("ecc_correctable_errors", "ecc_uncorrectable_errors", "pcie_replays"), "total"),
    **dict.fromkeys((f"nvlink_{kind}_errors" for kind in ("crc", "crc_flit", "crc_data", "replay", "recovery")), "total"),
    **dict.fromkeys(("remapped_rows_correctable", "remapped_rows_uncorrectable"), "total"),
    **dict.fromkeys(("row_remap_pending", "row_remap_failure", "vgpu_license_status"), ""),
    "energy": "joules_total",
    "memory_reserved": "bytes",
    "pcie_link_width": "lanes",
}
_HOST_SUFFIXES = {
    **dict.fromkeys(("cpu_utilization", "process_cpu_utilization"), "ratio"),
    **dict.fromkeys(("rss", "process_rss"), "bytes"),
    **dict.fromkeys(("minor_faults", "context_switches", "process_minor_faults", "process_major_faults"), "per_second"),
    "process_context_switches": "per_second",
    **dict.fromkeys(("disk_read", "disk_write", "process_read", "process_write"), "bytes_per_second"),
    **dict.fromkeys(("process_disk_read", "process_disk_write"), "bytes_per_second"),
    "process_threads": "",
}

#: The agent's name of the newest value -> column.
AGENT_NAMES = {f"epochcast_gpu_{column}_{suffix}".rstrip("_"): column for column, suffix in _GPU_SUFFIXES.items()} | {
    f"epochcast_host_{column}_{suffix}".rstrip("_"): column for column, suffix in _HOST_SUFFIXES.items()
}

Part = Literal["last", "window", "integral"]


class Meaning(NamedTuple):
    """What a series holds: ``part`` is the newest value, the mean over the agent's window, or the integral over time.

    From ``blank`` on a value is none, below it ``factor`` brings it to the base unit.
    """

    column: str
    part: Part
    factor: float = 1.0
    blank: float = math.inf


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
#: The power that an exporter has by default is a mean; it is taken for the column that the catalogue calls power.
DCGM_EXPORTER = {
    name: Meaning(
        "power" if column == "power_average" else column, "last", factor, ENERGY_BLANK if column == "energy" else BLANK
    )
    for name, (column, factor) in NAMES.items()
    if column not in ("power", LAST_XID)
}

#: Unit in a title or a cell -> factor to the base unit; NVIDIA's tools call a MiB a MB.
UNITS = {
    **dict.fromkeys(("W", "J", "Hz", "C", "°C", "B", "bytes"), 1.0),
    **dict.fromkeys(("mW", "mJ"), 1e-3),
    **dict.fromkeys(("MHz", "MB/s"), 1e6),
    **dict.fromkeys(("MiB", "MB"), MIB),
    **dict.fromkeys(("GiB", "GB"), 2.0**30),
    "%": 1e-2,
    "kW": 1e3,
    "GHz": 1e9,
    "KiB": 2.0**10,
}

#: Title in a log -> (column, factor to its base unit where no unit is written). ``power.draw`` is NVML's power usage, on Ampere
#: and newer the mean over a second (nvidia-smi's manual), hence not the instant power. Names with ``_`` are those of its XML.
LOGGED: dict[str, tuple[str, float]] = {
    **dict.fromkeys(("utilization.gpu", "gpu_util"), ("gpu_utilization", 1e-2)),
    **dict.fromkeys(("utilization.memory", "memory_util"), ("memory_utilization", 1e-2)),
    "memory.used": ("memory_used", MIB),
    "memory.free": ("memory_free", MIB),
    "power.draw.instant": ("power", 1.0),
    **dict.fromkeys(("power.draw.average", "power.draw"), ("power_average", 1.0)),
    **dict.fromkeys(("clocks.current.sm", "clocks.sm"), ("sm_clock", 1e6)),
    **dict.fromkeys(("clocks.current.memory", "clocks.mem"), ("memory_clock", 1e6)),
    "temperature.gpu": ("temperature", 1.0),
    # nvitop; codecarbon, whose power is of all GPUs together.
    "power_usage": ("power_average", 1e-3),
    "gpu_power": ("power_average", 1.0),
    # DCGM: short names of `dcgmi dmon`, then those of dcgm-exporter.
    **SHORT_NAMES,
    "POWINST": ("power", 1.0),
    "POWER": ("power_average", 1.0),
    "TOTEC": ("energy", 1e-3),
    "MMCLK": ("memory_clock", 1e6),
    "TMPTR": ("temperature", 1.0),
    "FBUSD": ("memory_used", MIB),
    "FBFRE": ("memory_free", MIB),
    **{name: (meaning.column, meaning.factor) for name, meaning in DCGM_EXPORTER.items()},
}

#: Column of `nvidia-smi dmon` -> its title in a query.
DMON = {
    "gpu": "index",
    "pwr": "power.draw",
    "gtemp": "temperature.gpu",
    "temp": "temperature.gpu",
    "sm": "utilization.gpu",
    "mem": "utilization.memory",
    "mclk": "clocks.mem",
    "pclk": "clocks.sm",
    "fb": "memory.used",
}

#: What wandb calls a GPU's reading -> (column, factor). ``powerWatts`` is NVML's power usage.
WANDB = {
    "gpu": ("gpu_utilization", 0.01),
    "memory": ("memory_utilization", 0.01),
    "memoryAllocatedBytes": ("memory_used", 1.0),
    "memoryUsed": ("memory_used", MIB),
    "memoryFree": ("memory_free", MIB),
    "powerWatts": ("power_average", 1.0),
    "enforcedPowerLimitWatts": ("power_limit", 1.0),
    "totalEnergyConsumption": ("energy", 1e-3),
    "temp": ("temperature", 1.0),
    "smClock": ("sm_clock", 1e6),
    "memoryClock": ("memory_clock", 1e6),
    "pcieLinkWidth": ("pcie_link_width", 1.0),
}

#: The same, in percent by NVML and DCGM, a ratio by a dcgm-exporter: a reading above 1 shows which. PCIe and NVLink traffic is
#: in MiB/s or in bytes/s, which no reading shows, and keeps its own name.
WANDB_ACTIVITIES = {
    "smActive": "sm_active",
    "smOccupancy": "sm_occupancy",
    "pipeTensorActive": "tensor_active",
    "dramActive": "dram_active",
    "pipeFp64Active": "fp64_active",
    "pipeFp32Active": "fp32_active",
    "pipeFp16Active": "fp16_active",
}

#: The same of the process that called wandb, which is watched without its children unless it asks for them.
WANDB_PROCESS = {
    "cpu": ("process_cpu_utilization", 0.01),
    "proc.memory.rssMB": ("process_rss", MIB),
    "proc.cpu.threads": ("process_threads", 1.0),
}

RATIOS = frozenset(column for column, suffix in _GPU_SUFFIXES.items() if suffix == "ratio")
"""Columns of a GPU's shares, 0 to 1."""

_KNOWN = frozenset(_GPU_SUFFIXES | _HOST_SUFFIXES)
_UNIT = re.compile(r"(.*?)\s*(?:\[([^\]]*)\]|\(([^)]*)\))(?:\.\d+)?")
_TELEMETRY = re.compile(
    r"gpu|cpu|util|power|watt|energy|joule|clock|mem|vram|rss|temp|active|occup|dram|tensor|pci|nvlink|disk|net|field \d"
    r"|\b(sm|io|fan)",
    re.IGNORECASE,
)


def meaning_of(title: str) -> tuple[str, str | None, float]:
    """What a title says: the name without its unit, the column (None: no table knows it) and the factor to its base unit."""
    match = _UNIT.fullmatch(title)
    name, unit = (match[1], match[2] if match[3] is None else match[3]) if match else (title, None)
    if match and match[3] is not None and unit not in UNITS:  # brackets of another kind
        name, unit = title, None
    for spelling in (name, name.lower().replace(" ", "_")):
        column, factor = (spelling, 1.0) if spelling in _KNOWN else LOGGED.get(spelling, (None, 1.0))
        if column is not None:
            return name, column, UNITS.get(str(unit), factor)
    return name, None, 1.0


def is_telemetry(title: str) -> bool:
    """Whether a column may be a reading of hardware, by its name: a loss or a step is none."""
    return title in _KNOWN or bool(_TELEMETRY.search(title))
