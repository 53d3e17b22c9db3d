"""Packing jobs on shared GPUs: made-up jobs, and streams of measured trainings."""

import tempfile
from pathlib import Path

from .parts import Cases, Part, answer, tables

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
a,0,10,0.3,0.5,1e9
b,0,20,0.4,0.4,2e9
c,0,5,0.2,0.9,3e9
d,4,12,0.5,0.7,2e9
"""
STREAMS = {
    "CNNs": "measured_cnn.csv.gz --runs 100",
    "MLPs": "measured_mlp.csv.gz --runs 20",
    "CNNs that arrive one after the other": "measured_cnn.csv.gz --runs 20 --load 0.8 --seed 3",
}


def jobs() -> Cases:
    """Four jobs on two GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "jobs.csv")
        table.write_text(JOBS)
        return dict(tables(answer(f"simulate-packing --jobs {table} --memory 16e9 --gpus-total 2")))


def streams() -> Cases:
    """Random streams of trainings that were measured."""
    return {
        name.replace("all", stream, 1): row
        for stream, options in STREAMS.items()
        for name, row in tables(answer(f"simulate-packing --configurations SHARED/occupancy/{options}"))
    }


PARTS = [Part("jobs", jobs, quick=jobs), Part("streams", streams, needs=("shared",))]
