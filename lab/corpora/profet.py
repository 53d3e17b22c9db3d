"""Adapter of ddps-lab/profet (``target_preprocessing``): epoch and batch latency of CNNs on AWS instances, no telemetry.

One row per repeat of (instance, data set, model, optimizer, batch size). Both latencies are seconds, as Keras callbacks saw
them in one run: ``epoch_latency`` is the second epoch with its validation, the warm-up epoch before it left out;
``batch_latency`` the median batch of that epoch (PROFET's ``profile_workload.py``, ``rawdata_preprocessing.py``).

Model, data set and batch size name a workload and group rows; they are never features.
"""

from pathlib import Path

from epochcast.regressor.profile import Profile
from lab.corpora.csv_table import read_table

SIGNATURE = ("instance_name", "epoch_latency")
"""Columns that identify this file."""

_GPUS = {"g3s.xlarge": "M60", "g4dn.xlarge": "T4", "p2.xlarge": "K80", "p3.2xlarge": "V100 SXM2 16GB"}
_WORKLOAD = ["model", "optimizer", "dataset", "batchsize"]
_LATENCIES = ["epoch_latency", "batch_latency"]


def load(path: Path) -> list[Profile]:
    """Read the CSV into one profile per workload and GPU, the median over its repeats, in the order of their first rows.

    ``epochs`` is the number of repeats, ``workload`` is ``model|optimizer|data set|batch size`` and ``group`` the model.

    Raises:
        InputError: the file is unreadable, empty, lacks a column, or a cell is empty or holds no duration where one must be.
    """
    table = read_table(path, ("instance_name", *_WORKLOAD), [], _LATENCIES)
    return [
        Profile(
            gpu=_GPUS.get(str(instance), str(instance)),
            epoch_s=float(repeats["epoch_latency"].median()),
            unit="epoch",
            epochs=len(repeats),
            metrics={},
            feature_set="none",
            first_epoch_excluded=True,
            workload="|".join(map(str, workload)),
            group=str(workload[0]),
            step_s=float(repeats["batch_latency"].median()),
            precision="tf32",
            origin="profet",
        )
        for (instance, *workload), repeats in table.groupby(["instance_name", *_WORKLOAD], sort=False)
    ]
