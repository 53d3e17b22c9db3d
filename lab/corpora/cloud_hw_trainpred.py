"""Adapter of ddps-lab/cloud-hw-trainpred (``nvidiasmi_devicequery_all.csv``): one row per (GPU, CNN, batch, image size).

The nvidia-smi statistics become base units under our metric names. Left out, each because it misleads:

- static attributes: the catalogue has them, and the file's ``Memory Bandwidth`` of the P100 is V100's (its notebook reads the
  wrong table) in clock x bits;
- ``clocks_throttle_reasons_*``: counts of samples, that is, a copy of the latency;
- identifiers and settings (uuid, pci, driver, vbios, time stamps): they name the GPU;
- ``clocks_current_graphicsMHz``: equal to the SM clock; ``memory_totalMiB``: constant per GPU;
- the workload itself (model, batch, image size, images): it groups rows, it is never a feature.

``one_epoch_average_second`` is the total over ten epochs, first one and validation included.
"""

from pathlib import Path

from epochcast.regressor.profile import Profile
from lab.corpora.csv_table import read_table

SIGNATURE = ("Instances", "one_epoch_average_second")
"""Columns that identify this file."""

_MIB = 1024.0**2
# metric -> (column stem, factor to base units)
_METRICS = {
    "gpu_utilization": ("utilization_gpu", 1e-2),
    "memory_utilization": ("utilization_memory", 1e-2),
    "power": ("power_drawW", 1.0),
    "sm_clock": ("clocks_current_smMHz", 1e6),
    "temperature": ("temperature_gpu", 1.0),
    "memory_used": ("memory_usedMiB", _MIB),
    "memory_free": ("memory_freeMiB", _MIB),
}
_STATISTICS = {"mean": "mean", "std": "std", "min": "min", "p25": "25", "p50": "50", "p75": "75", "max": "max"}
_GPUS = {"g4dn": "T4", "g5": "A10G", "p100": "P100 PCIe 16GB", "p3": "V100 SXM2 16GB"}
_EPOCHS = 10  # see the module


def load(path: Path) -> list[Profile]:
    """Read the CSV into one profile per row; ``workload`` is ``model|batch|image size`` and ``group`` the model.

    Raises:
        InputError: the file is unreadable, empty, lacks a column, or holds a text, a gap or an impossible number where a
            finite number must be.
    """
    columns = [f"{stem}_{theirs}" for stem, _ in _METRICS.values() for theirs in _STATISTICS.values()]
    table = read_table(path, ["Instances", "model", "batchsize", "datasize"], columns, ["one_epoch_average_second"])
    return [
        Profile(
            gpu=_GPUS.get(str(row["Instances"]), str(row["Instances"])),
            epoch_s=float(row["one_epoch_average_second"]),
            unit="epoch",
            epochs=_EPOCHS,
            metrics={
                metric: {ours: float(row[f"{stem}_{theirs}"]) * factor for ours, theirs in _STATISTICS.items()}
                for metric, (stem, factor) in _METRICS.items()
            },
            feature_set="nvml",
            first_epoch_excluded=False,
            workload=f"{row['model']}|{row['batchsize']}|{row['datasize']}",
            group=str(row["model"]),
            precision="tf32",
            batch=float(row["batchsize"]),
            origin="cloud_hw_trainpred",
            type="cnn",
        )
        for row in table.to_dict("records")
    ]
