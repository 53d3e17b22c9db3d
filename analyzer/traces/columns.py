"""Names of telemetry in a time-series database -> columns of the metric catalogue: the agent's own, and dcgm-exporter's."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from epochcast.dcgm_names import BLANK, ENERGY_BLANK, LAST_XID, NAMES
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
