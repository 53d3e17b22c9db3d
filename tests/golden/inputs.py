"""The files that the goldens ask with: those of the pages (tests/example_files.py), and tiny tables of made-up figures."""

from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from epochcast.analyzer.traces.trace import Trace, write_trace
from lab.simulated_fleet import FleetSettings, write_fleet
from lab.simulator import simulate

from ..analyzer.adapters import wandb_logs
from ..example_files import write_example_files

TINY = "gpt:hidden=128,layers=4,heads=4,vocab=512,positions=128"

JOBS = """name,arrival_s,duration_s,occupancy,nvml_utilisation,memory_bytes
a,0,10,0.3,0.5,1e9
b,0,20,0.4,0.4,2e9
c,0,5,0.2,0.9,3e9
d,4,12,0.5,0.7,2e9
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
    for name, text in {"jobs.csv": JOBS, "links.toml": LINK}.items():
        (folder / name).write_text(text)
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
