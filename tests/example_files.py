"""The files that commands on the pages name: simulated traces and profiles of them, and tables as the pages tell of them."""

import gzip
import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.jobs.questions import example_profile
from epochcast.analyzer.traces.trace import Trace, write_trace
from epochcast.regressor import Profile
from epochcast.regressor.profile_json import profile_json
from lab.simulator import simulate

from .my_gpu import MY_GPU

TRAIN = """import time
end = time.monotonic() + 1
while time.monotonic() < end:
    sum(k * k for k in range(10_000))
"""
MODULE = """import torch


def tiny(batch=1):
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10))
    layers(torch.zeros(1, 3, 224, 224))
    return layers
"""
VMS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region,AvailabilityZone
g4dn.xlarge,T4,1,4,16,0.526,0.2,us-east-1,us-east-1a
g5.xlarge,A10G,1,4,16,1.006,0.4,us-east-1,us-east-1a
p4d.24xlarge,A100,8,96,1152,32.77,12.0,us-east-1,us-east-1a
"""
RUNS = """model,gpu,seconds,data,tensor,pipeline,micro_batch,global_batch,sequence_length,precision,recomputation
LLaMA-3.1-8B,H100 SXM5,4.1,2,2,2,1,64,2048,amp-bf16,none
LLaMA-3.1-8B,H100 SXM5,8.0,1,2,2,1,64,2048,amp-bf16,none
LLaMA-2-13B,H100 SXM5,9.3,2,2,2,1,64,2048,amp-bf16,none
"""
CONFIG = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
}


def write_example_files(folder: Path, root: Path) -> None:
    """Write every file that a page names into a folder; the public measurements are links."""
    made = simulate(7, epochs=6, epoch_s=8.0)
    for number, name in enumerate(("run.parquet", "run.gpu0.parquet", "run.gpu1.parquet", "gpu.parquet", "run.csv")):
        frame = pd.DataFrame({"time": made.time, **made.metrics})
        trace = Trace(frame, gpu=made.gpu, uuid=f"GPU-{number}", source="simulator", simulated=True)
        write_trace(trace, folder / name)
    texts = {
        "train.py": TRAIN,
        "my_models.py": MODULE,
        "vms.csv": VMS,
        "my-gpus.toml": MY_GPU,
        "runs.csv": RUNS,
        "config.json": json.dumps(CONFIG),
        "answer.json": json.dumps(_answer(made.time, made.metrics)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "traces").mkdir()
    for name in ("run.gpu0", "run.gpu1"):
        shutil.copy(folder / f"{name}.parquet", folder / "traces")
        (folder / "traces" / f"{name}.json").write_text(json.dumps(made.labels()))
    for name in ("data", "dashboards", "systemd"):
        shutil.copytree(root / name, folder / name)  # no link: commands write where they are told to
    points = gzip.decompress((root / "data" / "convmeter_cpu" / "points.csv.gz").read_bytes())
    (folder / "points.csv").write_bytes(points)
    shared = Path(os.environ.get("EPOCHCAST_SHARED", root.parent / "shared")) / "data"
    for path in shared.glob("*/*.csv*"):
        if not (folder / path.name).exists():
            (folder / path.name).symlink_to(path)
    _write_profiles(folder)


def _answer(time: NDArray[np.float64], metrics: Mapping[str, NDArray[np.float64]]) -> dict[str, object]:
    """The trace as a Prometheus answers to query_range."""
    result = [
        {"metric": {"__name__": name, "gpu": "0"}, "values": [[t, str(v)] for t, v in zip(time.tolist(), values, strict=True)]}
        for name, values in metrics.items()
    ]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


def _write_profiles(folder: Path) -> None:
    """run.json and job.json, and folders of profiles: six workloads of three architectures on two GPUs and on My GPU."""
    for name in ("run.json", "job.json"):
        (folder / name).write_text(json.dumps(example_profile()))
    seconds = {"T4": 30.0, "A10G": 14.0, "My GPU": 9.0}
    folders = {
        "my-profiles": ("T4", "A10G"),
        "anchors-on-t4": ("T4",),
        "anchors-on-mine": ("My GPU",),
    }
    for name, gpus in folders.items():
        (folder / name).mkdir()
        for number in range(6):
            for gpu in gpus:
                profile = _profile(gpu, number, seconds[gpu] * (1 + number / 4))
                (folder / name / f"{gpu} {number}.json").write_text(json.dumps(profile_json(profile)))


def _profile(gpu: str, number: int, epoch_s: float) -> Profile:
    def statistics(mean: float) -> dict[str, float]:
        low, high = mean * 0.9, mean * 1.1
        return {"mean": mean, "std": mean / 20, "min": low, "p25": mean, "p50": mean, "p75": mean, "max": high}

    busy = 0.3 + number / 10
    activity = {"gpu_utilization": busy, "memory_utilization": busy / 2, "power": 30 + 40 * busy, "sm_clock": 1.4e9}
    architecture = ("LeNet5", "ResNet18", "VGG11")[number % 3]
    return Profile(
        gpu,
        epoch_s,
        "epoch",
        5,
        {name: statistics(mean) for name, mean in activity.items()},
        "nvml",
        True,
        workload=f"{architecture}|{16 << number}|64",
        group=architecture,
        simulated=True,
    )
