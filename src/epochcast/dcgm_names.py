"""DCGM's names: those that dcgm-exporter prints, of both its generations, and short ones; their columns and units.

The file is next to the rooms because two of them need it that may not import each other: the agent's source `dcgm-exporter`,
and the analyzer's readers of time-series databases and logs.

Up to 4.8 the exporter's counters file has the fields of DCGM 4.5 by name; 4.9, which comes with DCGM 4.7, has 23 of them by
new names, eleven in base units. Any file can have any name, so all are known at any time. Sources: ``dcgm_fields.h`` of DCGM
4.5 and 4.6, ``pkg/dcgm/base_unit_fields_test.go`` of NVIDIA's go-dcgm for 4.7, the release notes of dcgm-exporter 4.9.0.
"""

MIB = 2**20
MHZ = 1e6
PERCENT = 1e-2
MILLI = 1e-3

LAST_XID = "last_xid"
"""What is the code of the last Xid error in place of a column: a report, not a metric."""

#: Short name of a field, as `dcgmi dmon` heads its columns -> (column, factor to its base unit).
SHORT_NAMES: dict[str, tuple[str, float]] = {
    "GRACT": ("gr_engine_active", 1.0),
    "SMACT": ("sm_active", 1.0),
    "SMOCC": ("sm_occupancy", 1.0),
    "TENSO": ("tensor_active", 1.0),
    "DRAMA": ("dram_active", 1.0),
    "FP64A": ("fp64_active", 1.0),
    "FP32A": ("fp32_active", 1.0),
    "FP16A": ("fp16_active", 1.0),
    "PCITX": ("pcie_tx", 1.0),
    "PCIRX": ("pcie_rx", 1.0),
    "NVLTX": ("nvlink_tx", 1.0),
    "NVLRX": ("nvlink_rx", 1.0),
    "GPUTL": ("gpu_utilization", PERCENT),
    "MCUTL": ("memory_utilization", PERCENT),
    "SMCLK": ("sm_clock", MHZ),
}

#: Older exporters print DCGM's blanks as values: from here on, but a counter of mJ may get there, and its blanks are beyond.
BLANK, ENERGY_BLANK = 2.0**47, 1e18

#: DCGM 4.6 gave this name to what was still percent, in whole numbers; since 4.7 it is a ratio.
ONCE_PERCENT = "DCGM_FI_DEV_GPU_UTIL_RATIO"

#: Name of a series -> (column, factor to its base unit); of a column's names the oldest comes first.
NAMES: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_SM_CLOCK": ("sm_clock", MHZ),
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": ("sm_clock", 1.0),
    "DCGM_FI_DEV_MEM_CLOCK": ("memory_clock", MHZ),
    "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ": ("memory_clock", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature", 1.0),
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": ("temperature", 1.0),
    "DCGM_FI_DEV_POWER_USAGE": ("power_average", 1.0),
    "DCGM_FI_DEV_BOARD_POWER_WATTS": ("power_average", 1.0),
    "DCGM_FI_DEV_POWER_USAGE_INSTANT": ("power", 1.0),
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": ("power", 1.0),
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": ("power_limit", 1.0),
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": ("power_limit", 1.0),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("energy", MILLI),
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL": ("energy", 1.0),
    "DCGM_FI_DEV_GPU_UTIL": ("gpu_utilization", PERCENT),
    ONCE_PERCENT: ("gpu_utilization", 1.0),
    "DCGM_FI_DEV_MEM_COPY_UTIL": ("memory_utilization", PERCENT),
    "DCGM_FI_DEV_MEMORY_UTIL_RATIO": ("memory_utilization", 1.0),  # unconfirmed, see below
    "DCGM_FI_DEV_FB_FREE": ("memory_free", MIB),
    "DCGM_FI_DEV_FB_FREE_BYTES": ("memory_free", 1.0),  # unconfirmed
    "DCGM_FI_DEV_FB_USED": ("memory_used", MIB),
    "DCGM_FI_DEV_FB_USED_BYTES": ("memory_used", 1.0),  # unconfirmed
    "DCGM_FI_DEV_BAR1_FREE": ("bar1_free", MIB),
    "DCGM_FI_DEV_BAR1_FREE_BYTES": ("bar1_free", 1.0),
    "DCGM_FI_DEV_BAR1_USED": ("bar1_used", MIB),
    "DCGM_FI_DEV_BAR1_USED_BYTES": ("bar1_used", 1.0),
    "DCGM_FI_DEV_PCIE_LINK_WIDTH": ("pcie_link_width", 1.0),
    "DCGM_FI_DEV_MEMORY_TEMP": ("memory_temperature", 1.0),
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": ("memory_temperature", 1.0),
    "DCGM_FI_DEV_FAN_SPEED": ("fan_speed", PERCENT),
    "DCGM_FI_DEV_FAN_SPEED_RATIO": ("fan_speed", 1.0),
    "DCGM_FI_DEV_ENC_UTIL": ("encoder_utilization", PERCENT),
    "DCGM_FI_DEV_ENC_UTIL_RATIO": ("encoder_utilization", 1.0),  # unconfirmed
    "DCGM_FI_DEV_DEC_UTIL": ("decoder_utilization", PERCENT),
    "DCGM_FI_DEV_DEC_UTIL_RATIO": ("decoder_utilization", 1.0),  # unconfirmed
    "DCGM_FI_DEV_FB_RESERVED": ("memory_reserved", MIB),
    "DCGM_FI_DEV_FB_RESERVED_BYTES": ("memory_reserved", 1.0),  # unconfirmed
    "DCGM_FI_DEV_XID_ERRORS": (LAST_XID, 1.0),
    "DCGM_FI_DEV_XID_ERROR": (LAST_XID, 1.0),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("ecc_correctable_errors", 1.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("ecc_uncorrectable_errors", 1.0),
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("remapped_rows_correctable", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL": ("remapped_rows_correctable", 1.0),
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("remapped_rows_uncorrectable", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL": ("remapped_rows_uncorrectable", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_PENDING": ("row_remap_pending", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("row_remap_failure", 1.0),
    "DCGM_FI_DEV_ROW_REMAP_FAILED": ("row_remap_failure", 1.0),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL": ("nvlink_crc_flit_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL": ("nvlink_crc_flit_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL": ("nvlink_crc_data_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL": ("nvlink_crc_data_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_ERROR_DL_CRC": ("nvlink_crc_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL": ("nvlink_crc_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL": ("nvlink_replay_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY": ("nvlink_replay_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL": ("nvlink_replay_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL": ("nvlink_replay_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL": ("nvlink_recovery_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY": ("nvlink_recovery_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL": ("nvlink_recovery_errors", 1.0),
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL": ("nvlink_recovery_errors", 1.0),
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("pcie_replays", 1.0),
    "DCGM_FI_DEV_PCIE_REPLAY_TOTAL": ("pcie_replays", 1.0),
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": ("vgpu_license_status", 1.0),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gr_engine_active", 1.0),
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": ("gr_engine_active", 1.0),
    "DCGM_FI_PROF_SM_ACTIVE": ("sm_active", 1.0),
    "DCGM_FI_PROF_SM_UTIL_RATIO": ("sm_active", 1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY": ("sm_occupancy", 1.0),
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": ("sm_occupancy", 1.0),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active", 1.0),
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": ("tensor_active", 1.0),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active", 1.0),
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": ("dram_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP64_ACTIVE": ("fp64_active", 1.0),
    "DCGM_FI_PROF_FP64_UTIL_RATIO": ("fp64_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP32_ACTIVE": ("fp32_active", 1.0),
    "DCGM_FI_PROF_FP32_UTIL_RATIO": ("fp32_active", 1.0),
    "DCGM_FI_PROF_PIPE_FP16_ACTIVE": ("fp16_active", 1.0),
    "DCGM_FI_PROF_FP16_UTIL_RATIO": ("fp16_active", 1.0),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("pcie_tx", 1.0),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("pcie_rx", 1.0),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("nvlink_tx", 1.0),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("nvlink_rx", 1.0),
}
# Unconfirmed: these names, that of all NVLinks' traffic (agent/compat.py), and that ONCE_PERCENT is a ratio now, are from
# somebody's notes of September 2026 on NVIDIA's page "Field Identifiers" of DCGM 4.7. The release notes have the change of
# units, of which there are eleven in the default list, as many as here, and of such names FB_CAPACITY_BYTES.

#: Column -> its oldest name, which every exporter knows and which is in the units of `dcgm_fields.h`.
OLDEST: dict[str, str] = {column: name for name, (column, _) in reversed(NAMES.items())}
#: Column -> the name that dcgm-exporter 4.9 prints.
NEWEST: dict[str, str] = {column: name for name, (column, _) in NAMES.items()}
