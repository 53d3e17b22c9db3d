"""One run of a campaign: train a workload in a process of its own while the agent samples, and file its trace and labels."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from ..corpus import append_run
from ..errors import AgentError, InputError
from ..files import write_whole
from ..recording.record import Recording, record
from ..traces.trace import read_trace
from .device import Device
from .plan import Workload
from .trainer_process import reason_of, trainer_command

_KEPT_LINES = 40  # of what a failed training said: a traceback through PyTorch has about twenty


class RunError(RuntimeError):
    """A run failed; the message says why in one sentence, ``said`` holds the last lines of the training process."""

    def __init__(self, reason: str, said: list[str]) -> None:
        super().__init__(reason)
        self.said = said[-_KEPT_LINES:]


@dataclass(frozen=True)
class Training:
    """How the trainings of a campaign are run."""

    device: Device
    seed: int = 0
    timeout_s: float = 3600.0


def record_run(workload: Workload, epochs: int, corpus: Path, name: str, training: Training) -> dict[str, Any]:
    """Train and record ``workload``; leave ``traces/NAME.parquet``, ``traces/NAME.json`` and a row in the corpus; the labels.

    All three are there or none counts: what is half done lies in ``.running`` alone. Raises RunError if the training fails or
    its trace makes no row, InputError or OSError if the corpus cannot be written, AgentError if no agent can be had.
    """
    running = corpus / ".running"
    shutil.rmtree(running, ignore_errors=True)
    running.mkdir()
    command = trainer_command(workload, epochs, training.device, seed=training.seed, timeout_s=training.timeout_s)
    began = time.time()
    with tempfile.TemporaryFile() as output:
        recording, said = _recorded(command, running / f"{name}.parquet", training, output)
    if recording.problem is not None:
        raise InputError(recording.problem)
    if recording.returncode != 0:
        raise RunError(reason_of(recording.returncode, said, training.timeout_s), said)
    trace = _trained_device(recording, training.device, said)
    labels = _labels(workload, said) | {
        "seconds": round(time.time() - began, 3),
        "load_average": os.getloadavg()[0],
        "device": training.device.name,
    }
    kept = corpus / "traces" / f"{name}.parquet"
    beside = kept.with_suffix(".json")
    kept.parent.mkdir(exist_ok=True)
    trace.replace(kept)
    write_whole(beside, lambda file: file.write(json.dumps(labels, indent=1).encode()))
    try:
        append_run(corpus, kept, beside)
    except ValueError as error:  # the InputError of any room; an OSError, the disk's, passes
        kept.unlink()
        beside.unlink()
        raise RunError(str(error), said) from error
    shutil.rmtree(running, ignore_errors=True)
    return labels


def _recorded(command: list[str], out: Path, training: Training, output: IO[bytes]) -> tuple[Recording, list[str]]:
    """Record ``command``; its recording, and the lines that it said."""
    # Both streams in one file: the last that was said is the labels, or why there are none.
    joined = ["sh", "-c", 'exec "$@" 2>&1', "sh", *command]

    def lines() -> list[str]:
        output.seek(0)
        return output.read().decode(errors="replace").splitlines()

    try:
        return record(joined, out, source=training.device.source, stdout=output), lines()
    except AgentError as error:
        said = lines()
        if said:  # it ended before the first sample: its own words are the better reason
            raise RunError(said[-1], said) from error
        raise


def _trained_device(recording: Recording, device: Device, said: list[str]) -> Path:
    """The trace of the device that trained; those of a node's other GPUs are removed."""
    found = None
    for path in recording.traces:
        if len(recording.traces) == 1 or read_trace(path).uuid == device.uuid:
            found = path
        else:
            path.unlink()
    if found is None:
        raise RunError(f"the agent gave no sample of {device.name} ({device.uuid}); see: epochcast-agent check", said)
    return found


def _labels(workload: Workload, said: list[str]) -> dict[str, Any]:
    """The labels: what was trained, and the last line that tells of epochs. A library may still warn after it."""
    for line in reversed(said):
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and {"epoch_starts", "epoch_ends", "training"} <= told.keys():
            names = {"workload": workload.text, "group": workload.network, "cls": workload.network}
            return names | told | workload.model_dump()
    raise RunError("the training ended well but did not say when its epochs were", said)
