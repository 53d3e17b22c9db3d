"""DCGM's fields by number, as far as the catalogue has them: their units, and the names that dcgm-exporter prints.

Numbers and units are those of ``dcgm_fields.h``; the numbers are stable, DCGM 4.6 renamed the fields.
"""

MIB = 2**20
MHZ = 1e6
PERCENT = 1e-2
MILLI = 1e-3

PROFILING_FIELDS = range(1001, 1100)
# A MIG instance has its own share of these; power, clocks and the like are the whole card's.
INSTANCE_FIELDS = frozenset({251, 252, *PROFILING_FIELDS})
# Why metrics without a field are not measured: of Xid errors DCGM keeps the last one's code, and no count.
NO_FIELD = "DCGM does not count it; the sources 'gpm' and 'nvml' do"
# Base units per DCGM unit; the other fields are in base units.
SCALE = {
    92: MIB,
    93: MIB,
    100: MHZ,
    101: MHZ,
    156: MILLI,  # mJ
    203: PERCENT,
    204: PERCENT,
    251: MIB,
    252: MIB,
}
# Without their common DCGM_FI_; the second name is that of DCGM 4.6, should the exporter's counters file use it.
NAMES = {
    92: ("DEV_BAR1_USED",),
    93: ("DEV_BAR1_FREE",),
    100: ("DEV_SM_CLOCK",),
    101: ("DEV_MEM_CLOCK",),
    150: ("DEV_GPU_TEMP", "DEV_GPU_TEMP_CELSIUS"),
    155: ("DEV_POWER_USAGE", "DEV_BOARD_POWER_WATTS"),
    156: ("DEV_TOTAL_ENERGY_CONSUMPTION",),
    157: ("DEV_POWER_USAGE_INSTANT", "DEV_BOARD_POWER_RAW_WATTS"),
    164: ("DEV_ENFORCED_POWER_LIMIT", "DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"),
    203: ("DEV_GPU_UTIL", "DEV_GPU_UTIL_RATIO"),
    204: ("DEV_MEM_COPY_UTIL",),
    238: ("DEV_PCIE_LINK_WIDTH",),
    251: ("DEV_FB_FREE",),
    252: ("DEV_FB_USED",),
    1001: ("PROF_GR_ENGINE_ACTIVE", "PROF_GR_ENGINE_UTIL_RATIO"),
    1002: ("PROF_SM_ACTIVE", "PROF_SM_UTIL_RATIO"),
    1003: ("PROF_SM_OCCUPANCY", "PROF_SM_OCCUPANCY_RATIO"),
    1004: ("PROF_PIPE_TENSOR_ACTIVE", "PROF_TENSOR_UTIL_RATIO"),
    1005: ("PROF_DRAM_ACTIVE", "PROF_DRAM_UTIL_RATIO"),
    1006: ("PROF_PIPE_FP64_ACTIVE", "PROF_FP64_UTIL_RATIO"),
    1007: ("PROF_PIPE_FP32_ACTIVE", "PROF_FP32_UTIL_RATIO"),
    1008: ("PROF_PIPE_FP16_ACTIVE", "PROF_FP16_UTIL_RATIO"),
    1009: ("PROF_PCIE_TX_BYTES",),
    1010: ("PROF_PCIE_RX_BYTES",),
    1011: ("PROF_NVLINK_TX_BYTES",),
    1012: ("PROF_NVLINK_RX_BYTES",),
}
