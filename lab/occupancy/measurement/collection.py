"""Collecting measured trainings: record what the table does not hold yet, until the time is over."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pandas as pd

from epochcast.analyzer.backends.occupancy.networks import NetworkConfiguration, complete
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.recording.record import record
from epochcast.analyzer.traces.trace import read_trace
from lab.campaign.device import TrainingDevice
from lab.convmeter.collection import CollectionResult
from lab.growing_table import GrowingTable
from lab.occupancy.measurement import COLUMNS, CONFIGURATION, FIGURES, OUT_OF_MEMORY, SUCCESSFUL

BATCHES = (8, 32, 128)
"""The public tables' convolutional networks have 1 to 62, their perceptrons up to about 1000."""


class _NoFiguresError(Exception):
    """Why there is no figure of a training."""


def plan(networks: Sequence[str], batches: Sequence[int], seed: int) -> list[NetworkConfiguration]:
    """Every network at every batch with its usual sizes, in random order: any beginning is a fair sample.

    Raises:
        InputError: a batch is too large.
    """
    planned = [
        complete(NetworkConfiguration(network, batch))
        for network in dict.fromkeys(networks)
        for batch in dict.fromkeys(batches)
    ]
    Random(seed).shuffle(planned)
    return planned


def collect(
    planned: Sequence[NetworkConfiguration],
    path: Path,
    device: TrainingDevice,
    gpu: str,
    seconds: float,
    deadline: float,
    progress: Callable[[int, int], None],
) -> CollectionResult:
    """Measure configurations in order; each is a row of the table as soon as it is measured.

    Args:
        planned: what to train.
        path: the table, begun or continued.
        device: where to train.
        gpu: its name in the catalogue.
        seconds: of steps per configuration.
        deadline: seconds of ``time.monotonic``; only the first training may end later.
        progress: called with how many configurations are done, and how many there are.

    Raises:
        InputError: the file holds something else, or cannot be written; the agent does not read the device.
        AgentError: no agent can be had.
    """
    file = GrowingTable(path, COLUMNS, {"gpu": gpu}, CONFIGURATION)
    missing = [configuration for configuration in planned if asdict(configuration) not in file]
    reasons: Counter[str] = Counter()
    before, done, longest = file.rows, 0, 0.0
    for configuration in missing:
        begin = time.monotonic()
        # A training's process starts by importing torch, which may take longer than its steps.
        if done and begin + longest > deadline:
            break
        try:
            file.append({**asdict(configuration), **measure(configuration, device, seconds)})
        except _NoFiguresError as reason:
            reasons[str(reason)] += 1
        longest = max(longest, time.monotonic() - begin)
        done += 1
        progress(done, len(missing))
    return CollectionResult(file.rows, file.rows - before, len(missing) - done, sum(reasons.values()), reasons)


def measure(configuration: NetworkConfiguration, device: TrainingDevice, seconds: float) -> dict[str, float | str]:
    """Train a configuration in a process of its own while the agent reads the device; the columns FIGURES and ``status``.

    Raises:
        _NoFiguresError: its process failed for another reason than the GPU's memory, or the agent gave no sample of its steps.
        InputError: the agent does not read the device.
        AgentError: no agent can be had.
    """
    with TemporaryDirectory(prefix="epochcast-") as folder:
        answer = Path(folder) / "answer.json"
        arguments = [json.dumps(asdict(configuration)), device.torch, str(seconds), str(answer)]
        command = [sys.executable, "-m", f"{__package__}.training_run", *arguments]
        variables = [f"{name}={value}" for name, value in device.environment.items()]
        recording = record(
            ["env", *variables, *command], Path(folder) / "run.parquet", source=device.source, stdout=subprocess.DEVNULL
        )
        if recording.returncode in (128 + signal.SIGINT, 128 + signal.SIGTERM):  # meant for this command, too
            raise SystemExit(recording.returncode)
        if not answer.exists():
            raise _NoFiguresError(f"its process ended with status {recording.returncode}")
        said = json.loads(answer.read_text())
        if said.get("out_of_memory"):
            return {**dict.fromkeys(FIGURES, -1), "status": OUT_OF_MEMORY}
        if "reason" in said:
            raise _NoFiguresError(said["reason"])
        traces = [read_trace(path) for path in recording.traces]
    own = [trace.frame for trace in traces if trace.uuid == device.uuid]
    if not own:
        raise InputError(f"the agent gave no sample of {device.name} ({device.uuid}); see: epochcast-agent check")
    return {**figures(own[0], said["begin"], said["end"]), "status": SUCCESSFUL}


def figures(frame: pd.DataFrame, begin: float, end: float) -> dict[str, float]:
    """FIGURES of the samples from ``begin`` to ``end``, unix seconds, in a trace's frame.

    Raises:
        _NoFiguresError: there is no value between them.
    """
    metrics = [metric for metric, _ in FIGURES.values()]
    steps = frame[frame["time"].between(begin, end)].reindex(columns=metrics)
    if steps.isna().all(axis=None):
        raise _NoFiguresError("the agent gave no sample while its steps ran")
    read = {**steps.mean(), "memory_used": steps["memory_used"].max()}
    known = {column: read[metric] * unit for column, (metric, unit) in FIGURES.items()}
    return {column: -1.0 if pd.isna(value) else float(value) for column, value in known.items()}
