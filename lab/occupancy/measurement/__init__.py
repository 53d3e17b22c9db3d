"""The table of measured trainings: each network trains on the GPU at hand while the agent reads that GPU."""

from epochcast.analyzer.backends.occupancy.packing.jobs import SUCCESSFUL

CONFIGURATION = ("network", "batch", "image_size", "sequence", "precision")
"""Columns of what was trained: the fields of NetworkConfiguration, 0 where a size does not apply."""

FIGURES = {
    "peak_memory_mib": ("memory_used", 2.0**-20),
    "gpu_utilization_percent": ("gpu_utilization", 100.0),
    "sm_active": ("sm_active", 1.0),
    "sm_occupancy": ("sm_occupancy", 1.0),
}
"""Columns of what was read, -1 where it was not: the agent's metric, and what turns its unit into the column's.

The memory is the most that was used on the whole device, as nvidia-smi shows it; the others are means over the steps alone.
"""

COLUMNS = (*CONFIGURATION, "gpu", *FIGURES, "status")

OUT_OF_MEMORY = "OOM_CRASH"
"""The status beside SUCCESSFUL, in the words of the public tables (GPUMemNet)."""

__all__ = ["COLUMNS", "CONFIGURATION", "FIGURES", "OUT_OF_MEMORY", "SUCCESSFUL"]
