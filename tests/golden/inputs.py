"""The files that the goldens ask with: those of the pages (tests/example_files.py), and tiny tables of made-up figures."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulated_fleet import FleetSettings, write_fleet
from lab.simulator import simulate

from ..analyzer.adapters import wandb_logs
from ..analyzer.occupancy.made_trainings import trainings
from ..example_files import write_example_files

TINY = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"
LARGER = "gpt:hidden=256,layers=4,heads=4,vocab=512,positions=128"

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
a,0,10,0.3,0.5,1e9
b,0,20,0.4,0.4,2e9
c,0,5,0.2,0.9,3e9
d,4,12,0.5,0.7,2e9
"""
PLAN = """[[workload]]
network = "LeNet5"
batch_size = 16
image_size = 32
samples = 3000
epochs = 3
"""
LINK = '[[link]]\nname = "mine"\nkind = "ethernet"\nbandwidth = 1e9\nlatency = 1e-5\nper = "node"\nsource = "measured"\n'


def write_inputs(folder: Path, root: Path) -> None:
    """Write all of them."""
    write_example_files(folder, root)
    for name, kind, epoch_s in (("idle", "idle", 30.0), ("serving", "serving", 30.0), ("steps", "training", 80.0)):
        made = simulate(9, kind=kind, epochs=1, epoch_s=epoch_s, step_s=0.5)
        frame = pd.DataFrame({"time": made.time, **made.metrics})
        if name == "steps":  # within the one epoch
            frame = frame[(made.time - made.time[0] > 20) & (made.time - made.time[0] < 60)]
        write_trace(Trace(frame, gpu=made.gpu, source="simulator", simulated=True), folder / f"{name}.parquet")
    write_fleet(folder / "fleet", FleetSettings(gpus=2, minutes=2.0))
    for name, text in {"jobs.csv": JOBS, "plan.toml": PLAN, "links.toml": LINK, "trace.json": _profiler_trace()}.items():
        (folder / name).write_text(text)
    _runs().to_csv(folder / "tiny-runs.csv", index=False)
    trainings(folder / "trainings.csv", 80)
    _write_operators(folder / "operators")
    points = pd.read_csv(folder / "points.csv")
    points[points["network"].isin(sorted(set(points["network"]))[::4])].to_csv(folder / "few-points.csv", index=False)
    if (timm := folder / "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv").exists():
        pd.read_csv(timm)[::8].to_csv(folder / "few-timm.csv", index=False)
    if find_spec("wandb"):
        _write_logged_runs(folder / "wandb")


def _write_logged_runs(folder: Path) -> None:
    """A workload on two GPUs and a run that nothing is to be learned from, as wandb logs them."""
    config = {"network": "resnet50", "batch_size": 64, "image_size": 224, "precision": "16-mixed"}
    for name, gpu in (("a1", "NVIDIA A10G"), ("t4", "Tesla T4"), ("none", "NVIDIA L4")):
        epochs = wandb_logs.per_epoch() if name != "none" else []
        records = [
            wandb_logs.environment(gpu),
            *wandb_logs.stats(busy_gpus=(0,)),
            wandb_logs.run_record(name, **config),
            *epochs,
        ]
        wandb_logs.write(folder / name / f"run-{name}.wandb", records)


def _profiler_trace() -> str:
    """Three kernels and a copy, as PyTorch's profiler writes them."""
    gpu = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}
    events: list[dict[str, object]] = [{"cat": "gpu_memcpy", "name": "Memcpy", "dur": 5, "args": {"device": 0}}]
    for start, (name, grid, microseconds, registers) in enumerate(
        [("matmul", 66, 600.0, 96), ("matmul", 132, 200.0, 96), ("add", 132_000, 200.0, 32)]
    ):
        args = {"device": 0, "grid": [grid, 1, 1], "block": [256, 1, 1], "registers per thread": registers, "shared memory": 0}
        events.append({"ph": "X", "cat": "kernel", "name": name, "ts": 1000 * start, "dur": microseconds, "args": args})
    return json.dumps({"deviceProperties": [gpu], "traceEvents": events})


def _runs() -> pd.DataFrame:
    """Iterations of two small models on up to 16 GPUs."""
    rows = [
        (model, "A100 SXM4 80GB", seconds / data**0.5, data, tensor, pipeline, 1, 32, 128, "fp16", "none")
        for model, seconds in ((TINY, 0.03), (LARGER, 0.07))
        for data, tensor, pipeline in ((1, 1, 1), (2, 1, 1), (4, 2, 1), (4, 1, 2), (2, 2, 2), (8, 2, 1))
    ]
    parallel = ["data", "tensor", "pipeline", "micro_batch", "global_batch"]
    return pd.DataFrame(rows, columns=["model", "gpu", "seconds", *parallel, "sequence_length", "precision", "recomputation"])


def _write_operators(folder: Path) -> None:
    """Operators of two GPUs in NeuSight's form, whose times follow FLOPs and elements."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    products, passes = [], []
    for device, slower in (("Tesla T4", 4.0), ("NVIDIA A100-PCIE-40GB", 1.0)):
        for op, most in (("linear", 1), ("bmm", 512)):
            for _ in range(60):
                b = int(rng.integers(1, most + 1))
                m, n, k = (int(2 ** rng.uniform(5, 11)) for _ in "mnk")
                products.append((op, slower * (1e-10 * b * m * n * k + 1e-2), device, b, m, n, k))
        for op in ("ln", "softmax", "add", "gelu"):
            for _ in range(30):
                rows, columns = int(2 ** rng.uniform(0, 16)), int(2 ** rng.uniform(5, 11))
                passes.append((op, slower * (1e-8 * rows * columns + 1e-2), device, rows, columns))
    pd.DataFrame(products, columns=["OPName", "Latency", "Device", *"BMNK"]).to_csv(folder / "products.csv", index=False)
    pd.DataFrame(passes, columns=["OPName", "Latency", "Device", *"BH"]).to_csv(folder / "passes.csv", index=False)
