"""The table of measured trainings: each network trains on the GPU at hand while the agent reads that GPU."""

CONFIGURATION = ("network", "batch", "channels", "image_size", "sequence", "hidden", "layers", "precision")
"""Columns of what was trained: the fields of Configuration, 0 where a size does not apply."""

FIGURES = ("peak_memory_mib", "gpu_utilization_percent", "sm_active", "sm_occupancy")
"""Columns of what was read, -1 where it was not: the most memory used on the whole device, as nvidia-smi shows it, MiB; means
over the steps alone of NVML's utilisation, percent, and of SM activity and SM occupancy, ratios 0..1."""

COLUMNS = (*CONFIGURATION, "gpu", *FIGURES, "status")

SUCCESSFUL, OUT_OF_MEMORY = "SUCCESSFUL", "OOM_CRASH"
"""The status, in the words of the public tables (GPUMemNet)."""
