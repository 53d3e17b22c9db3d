"""Train and record each workload of a plan on this machine, in a process of its own: labelled traces to learn from.

A plan is a TOML file, or the name of one in plans/; lists make a grid. Workloads whose trace is there already are passed over,
so the same command goes on where it was stopped. Exits 1 if a training failed.

python -m lab.campaign ten-minutes-gpu --out my-a10g
python -m lab.campaign plan.toml --device cuda:1
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.traces.recording.record import record
from epochcast.analyzer.traces.trace import read_trace
from lab.campaign.device import TrainingDevice, choose_device

PLANS = Path(__file__).with_name("plans")
TIMEOUT_S = 3600
DEFAULTS = {"precision": "fp32", "epochs": 10}  # epochs: the paper's; the first is left out of a profile

# On a machine that others use too, threads that spin while they wait for each other slow a small network down, up to tenfold
# (measured); with this they sleep. A user's own setting wins.
CALM_THREADS = {"OMP_WAIT_POLICY": "passive"}


def workloads(plan: Path) -> list[dict[str, Any]]:
    """What a plan trains, table by table, network by network: the trainer's options of each."""
    tables = [DEFAULTS | table for table in tomllib.loads(plan.read_text(encoding="utf-8"))["workload"]]
    axes = [{key: value if isinstance(value, list) else [value] for key, value in table.items()} for table in tables]
    return [dict(zip(table, cell, strict=True)) for table in axes for cell in product(*table.values())]


def name_of(workload: dict[str, Any]) -> str:
    """``NETWORK|BATCH|IMAGE|SAMPLES``, and ``|amp``: equal text is equal work."""
    parts = [str(workload[key]) for key in ("network", "batch_size", "image_size", "samples")]
    return "|".join(parts if workload["precision"] == "fp32" else [*parts, workload["precision"]])


def trainer_command(workload: dict[str, Any], device: TrainingDevice) -> list[str]:
    """The command that trains it and ends with its labels as a line of JSON."""
    environment = {name: value for name, value in CALM_THREADS.items() if name not in os.environ} | dict(device.environment)
    variables = [f"{name}={value}" for name, value in environment.items()]
    options = [f"--{key.replace('_', '-')}={value}" for key, value in workload.items()]
    program = [sys.executable, "-m", "lab.campaign.trainer", *options, f"--device={device.torch}"]
    return ["timeout", str(TIMEOUT_S), "env", *variables, *program]


def recorded(workload: dict[str, Any], device: TrainingDevice, folder: Path) -> tuple[dict[str, Any], Path]:
    """Train and record; its labels, and the trace of the device that trained. RuntimeError: why not."""
    with tempfile.TemporaryFile() as output:
        done = record(trainer_command(workload, device), folder / "run.parquet", source=device.source, stdout=output)
        output.seek(0)
        said = output.read().decode(errors="replace").splitlines()
    traces = [path for path in done.traces if len(done.traces) == 1 or read_trace(path).uuid == device.uuid]
    if done.returncode or done.problem or not traces:
        raise RuntimeError(done.problem or f"the training ended with {done.returncode} (124: after {TIMEOUT_S} s); see above")
    return json.loads(said[-1]), traces[0]


def keep(workload: dict[str, Any], device: TrainingDevice, out: Path) -> None:
    """Leave ``NAME.parquet`` and its labels ``NAME.json``, unless they are there."""
    name = re.sub(r"[^\w.-]", "_", name_of(workload))
    kept = out / f"{name}_{device.file_name}.parquet"
    if kept.exists():
        print(f"{kept.stem}: finished before")
        return
    with tempfile.TemporaryDirectory(dir=out, prefix=".running-") as folder:
        labels, trace = recorded(workload, device, Path(folder))
        about = {"workload": name_of(workload), "group": workload["network"], "cls": workload["network"]}
        kept.with_suffix(".json").write_text(json.dumps(about | labels | workload, indent=1))
        shutil.move(trace, kept)
    print(f"{kept.stem}: {len(labels['epoch_starts'])} epochs of {seconds(labels):.4g} s")


def seconds(labels: dict[str, Any]) -> float:
    """The median epoch without the first."""
    return float(np.median(np.subtract(labels["epoch_ends"], labels["epoch_starts"])[1:]))


def main() -> int:
    """Run a plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", help=f"a TOML file, or one of {', '.join(sorted(path.stem for path in PLANS.iterdir()))}")
    parser.add_argument("--out", type=Path, help="folder of the traces (default: the plan's name)")
    parser.add_argument("--device", help="cpu or cuda:N (default: the first GPU, else the CPU)")
    parser.add_argument("--source", help="that the agent reads: nvml, dcgm or host (default: the best available)")
    asked = parser.parse_args()
    shipped = PLANS / f"{asked.plan}.toml"
    planned = workloads(shipped if shipped.exists() else Path(asked.plan))
    device = choose_device(asked.device, asked.source, torch.cuda.device_count())
    out = asked.out or Path(Path(asked.plan).stem)
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for workload in planned:
        try:
            keep(workload, device, out)
        except (RuntimeError, AgentError, InputError) as error:
            print(f"{name_of(workload)}: {error}", file=sys.stderr)
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
