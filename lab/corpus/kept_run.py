"""Runs that wandb or TensorBoard kept: their epochs and their telemetry."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.analyzer.corpus.labelled_profile import NoEpochsError
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.logs import tensorboard_events, wandb_run
from epochcast.analyzer.traces.logs.logged_run import LoggedRun
from epochcast.analyzer.traces.trace import Trace, read_traces, traces_of_tables

_SIZES = ("samples", "batch_size", "image_size")


@dataclass(frozen=True)
class ImportOptions:
    """What the user says of the runs, None where the runs say it themselves.

    Attributes:
        trace: a trace of the same time, to be used in place of the run's own telemetry.
        gpu: the GPU's name.
        device: which GPU the run had, where several of its machine were busy.
        workload, group: as in a profile.
        steps_per_epoch: steps of the history in an epoch, where it counts no epochs.
    """

    trace: Path | None = None
    gpu: str | None = None
    device: int | None = None
    workload: str | None = None
    group: str | None = None
    steps_per_epoch: float | None = None


@dataclass(frozen=True)
class KeptRun:
    """What was kept of a run: a name of its own, its telemetry, and what a label file next to that says."""

    name: str
    trace: Trace
    labels: Mapping[str, Any]


def read_kept_run(path: Path, options: ImportOptions) -> KeptRun:
    """Read a run of wandb or TensorBoard (its folder, or its file); InputError where it is none, or lacks what is needed.

    The epochs are those that its history counts, or its steps, or its printed lines; without any the labels have none.
    """
    recorded = _read(path)
    trace = _trace(recorded, options, str(path))
    # A resumed run is several of one id.
    name = re.sub(r"[^\w.-]+", "_", f"{recorded.id}-{int(trace.time[0])}")
    return KeptRun(name, trace, _labels(recorded, options, trace))


@contextmanager
def saying_what_gives_epochs() -> Iterator[None]:
    """Say of a run without epochs what would give it some; the InputError of any room becomes ours."""
    try:
        yield
    except NoEpochsError as error:
        raise InputError(
            "neither its history nor its output counts epochs, and its telemetry shows none clearly; give the steps of "
            "one epoch with --steps-per-epoch"
        ) from error
    except ValueError as error:
        raise InputError(str(error)) from error


def _read(path: Path) -> LoggedRun:
    if (log := wandb_run.run_file(path)) is not None:
        return wandb_run.read(log)
    if events := tensorboard_events.event_files(path):
        return tensorboard_events.read(events, str(path))
    raise InputError(
        f"{str(path)!r} is neither a wandb run (a folder run-DATE-ID or offline-run-DATE-ID, or its .wandb file) nor a "
        "TensorBoard log (a folder of event files)"
    )


def _trace(run: LoggedRun, options: ImportOptions, name: str) -> Trace:
    if options.trace is not None:
        traces = read_traces(options.trace)
    elif run.tables:
        traces = traces_of_tables(run.tables, name)
    else:
        raise InputError("a TensorBoard log has no telemetry; give a trace of the same period with --trace")
    if options.device is not None:
        traces = [trace for trace in traces if trace.label in (f"GPU {options.device}", None)]
        if not traces:
            raise InputError(
                f"it has no reading of a busy GPU {options.device}; name another with --device, or leave --device out"
            )
    if len(traces) > 1:
        busy = ", ".join(str(trace.label) for trace in traces)
        raise InputError(
            f"several GPUs were busy in it ({busy}), but a row covers one GPU: if the run had one GPU to itself, name it with "
            "--device"
        )
    return replace(traces[0], gpu=options.gpu or traces[0].gpu)


def _labels(run: LoggedRun, options: ImportOptions, trace: Trace) -> dict[str, Any]:
    config = run.config
    group = options.group or run.network
    known: dict[str, Any] = {"workload": options.workload or _workload(run), "group": group, "source": trace.source}
    known |= {key: config[key] for key in _SIZES if type(config.get(key)) is int and config[key] >= 1}
    if isinstance(config.get("precision"), str | int):
        known["precision"] = str(config["precision"])
    epochs = run.epochs(options.steps_per_epoch)
    if epochs is None:
        return known
    reach = float(np.median(np.diff(trace.time))) if len(trace.time) > 1 else 0.0  # of a sample
    first, last = trace.time[0] - reach, trace.time[-1] + reach
    inside = [(start, end) for start, end in epochs.spans if first <= start and end <= last]
    if len(inside) < 2:
        raise InputError(
            f"{len(inside)} of its {len(epochs.spans)} epochs are within its telemetry, but a period needs two: give a trace "
            "of the same period with --trace"
        )
    starts, ends = zip(*inside, strict=True)
    known |= {"training": True, "epoch_starts": starts, "epoch_ends": ends, "marks": epochs.origin.removeprefix("its ")}
    return known


def _workload(run: LoggedRun) -> str:
    """Equal for runs of one project with one configuration, which do equal work; a run's name in wandb is mostly random."""
    if isinstance(run.config.get("workload"), str) and run.config["workload"]:
        return str(run.config["workload"])
    if not run.config:
        raise InputError("it has no configuration that names its workload; give --workload")
    return f"{(run.project or 'wandb')[:80]}|{_digest(run.config)}"


def _digest(config: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=6).hexdigest()
