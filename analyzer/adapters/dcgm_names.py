"""DCGM's short names that `dcgmi dmon` and `record_epochs.py` both write their columns under."""

MIB = 2.0**20

#: DCGM's short name of a field -> (name in the metric catalogue, factor to its base unit).
SHORT_NAMES = {
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
    "GPUTL": ("gpu_utilization", 0.01),
    "MCUTL": ("memory_utilization", 0.01),
    "SMCLK": ("sm_clock", 1e6),
}
