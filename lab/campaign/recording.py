"""One run of a campaign: train a workload in a process of its own while the agent samples, and file its trace and labels."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from epochcast.analyzer.errors import AgentError, InputError
from epochcast.analyzer.traces.recording.record import CompletedRecording, record
from epochcast.analyzer.traces.trace import read_trace
from epochcast.common.files import write_whole
from lab.campaign.device import TrainingDevice
from lab.campaign.plan import Workload
from lab.corpus.table import append_run

_KEPT_LINES = 40  # of what a failed training said: a traceback through PyTorch has about twenty


class RunError(RuntimeError):
    """A run failed; the message says why in one sentence, ``said`` holds the last lines of the training process."""

    def __init__(self, reason: str, said: list[str]) -> None:
        super().__init__(reason)
        self.said = said[-_KEPT_LINES:]


@dataclass(frozen=True)
class RecordingSettings:
    """How the trainings of a campaign are run."""

    device: TrainingDevice
    seed: int = 0
    timeout_s: float = 3600.0


def record_run(workload: Workload, epochs: int, corpus: Path, name: str, settings: RecordingSettings) -> dict[str, Any]:
    """Train and record ``workload``; leave ``traces/NAME.parquet``, ``traces/NAME.json`` and a row in the corpus; the labels.

    Either all three exist or none counts: unfinished files are in ``.running``. Raises RunError if the training fails or
    its trace makes no row, InputError or OSError if the corpus cannot be written, AgentError if no agent can be had.
    """
    running = corpus / ".running"
    shutil.rmtree(running, ignore_errors=True)
    running.mkdir()
    command = trainer_command(workload, epochs, settings)
    began = time.time()
    with tempfile.TemporaryFile() as output:
        recording, said = _recorded(command, running / f"{name}.parquet", settings, output)
    if recording.problem is not None:
        raise InputError(recording.problem)
    if recording.returncode != 0:
        raise RunError(reason_of(recording.returncode, said, settings.timeout_s), said)
    trace = _trained_device(recording, settings.device, said)
    labels = _labels(workload, said) | {
        "seconds": round(time.time() - began, 3),
        "load_average": os.getloadavg()[0],
        "device": settings.device.name,
    }
    kept = corpus / "traces" / f"{name}.parquet"
    beside = kept.with_suffix(".json")
    kept.parent.mkdir(exist_ok=True)
    trace.replace(kept)
    write_whole(beside, lambda file: file.write(json.dumps(labels, indent=1).encode()))
    try:
        append_run(corpus, kept, beside)
    except ValueError as error:  # the InputError of any room
        if isinstance(error.__cause__, OSError):  # the disk's: no fault of this run
            raise
        kept.unlink()
        beside.unlink()
        raise RunError(str(error), said) from error
    shutil.rmtree(running, ignore_errors=True)
    return labels


def _recorded(
    command: list[str], out: Path, settings: RecordingSettings, output: IO[bytes]
) -> tuple[CompletedRecording, list[str]]:
    """Record ``command``; its recording, and the lines that it said."""
    # Both streams in one file: the last that was said is the labels, or why there are none.
    joined = ["sh", "-c", 'exec "$@" 2>&1', "sh", *command]
    try:
        return record(joined, out, source=settings.device.source, stdout=output), lines_of(output)
    except AgentError as error:
        said = lines_of(output)
        if said:  # it ended before the first sample: its own words are the better reason
            raise RunError(said[-1], said) from error
        raise


def lines_of(output: IO[bytes]) -> list[str]:
    """The lines that a process wrote into a file."""
    output.seek(0)
    return output.read().decode(errors="replace").splitlines()


def _trained_device(recording: CompletedRecording, device: TrainingDevice, said: list[str]) -> Path:
    """The trace of the device that trained; those of a node's other GPUs are removed."""
    trace = None
    for path in recording.traces:
        if len(recording.traces) == 1 or read_trace(path).uuid == device.uuid:
            trace = path
        else:
            path.unlink()
    if trace is None:
        raise RunError(f"the agent gave no sample of {device.name} ({device.uuid}); see: epochcast-agent check", said)
    return trace


def _labels(workload: Workload, said: list[str]) -> dict[str, Any]:
    """The labels: what was trained, and the last line that names its epochs. A library may still warn after it."""
    for line in reversed(said):
        try:
            labels = json.loads(line)
        except ValueError:
            continue
        if isinstance(labels, dict) and {"epoch_starts", "epoch_ends", "training"} <= labels.keys():
            names = {"workload": workload.text, "group": workload.network, "cls": workload.network}
            return names | labels | workload.model_dump()
    raise RunError("the training ended normally but did not report its epochs", said)


# On a machine that others use too, threads that spin while they wait for each other slow a small network down, up to tenfold
# (measured); with this they sleep. A user's own setting wins.
_CALM_THREADS = {"OMP_WAIT_POLICY": "passive"}


def trainer_command(workload: Workload, epochs: int, settings: RecordingSettings, *, blocks: bool = False) -> list[str]:
    """The command that trains ``workload``, all at once or in blocks (see `trainer`)."""
    options = {
        "network": workload.network,
        "batch-size": workload.batch_size,
        "image-size": workload.image_size,
        "samples": workload.samples,
        "precision": workload.precision,
        "epochs": epochs,
        "seed": settings.seed,
        "device": settings.device.torch,
        "timeout": settings.timeout_s,
    }
    calm = {name: value for name, value in _CALM_THREADS.items() if name not in os.environ}
    variables = [f"{name}={value}" for name, value in {**calm, **settings.device.environment}.items()]
    command = ["env", *variables, sys.executable, "-m", "lab.campaign.trainer"]
    return [*command, *(f"--{name}={value}" for name, value in options.items()), *(["--blocks"] if blocks else [])]


def reason_of(status: int, said: Sequence[str], timeout_s: float) -> str:
    """One sentence on why a training ended with ``status`` (as a shell gives it) after it ``said`` these lines."""
    if any(line.startswith("Timeout (") for line in said):  # faulthandler's own word, above the place where it hung
        return f"it hung: not finished after {timeout_s:g} s"
    last = next((line.strip() for line in reversed(_without_details(said)) if line.strip()), "")
    if status > 128:
        name = signal.Signals(status - 128).name if status - 128 in set(signal.Signals) else str(status - 128)
        why = " (out of memory, unless someone sent the signal)" if name == "SIGKILL" else ""
        return f"ended by {name}{why}" + (f": {last}" if last else "")
    return last or f"ended with status {status} without output"


def _without_details(said: Sequence[str]) -> Sequence[str]:
    """The lines up to the last exception's first one: CUDA's errors go on with four lines of advice."""
    begins = [number for number, line in enumerate(said) if line.startswith("Traceback (most recent call last)")]
    if not begins:
        return said
    raised = (number for number, line in enumerate(said) if number > begins[-1] and line[:1].strip())
    return said[: next(raised, len(said)) + 1]
