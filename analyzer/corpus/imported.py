"""Runs that wandb or TensorBoard kept, brought into a corpus: what a team has trained is what its model can learn from."""

from __future__ import annotations

import filecmp
import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from epochcast.analyzer.adapters import tensorboard_events, wandb_run
from epochcast.analyzer.adapters.logged_run import LoggedRun
from epochcast.analyzer.corpus.run import NoEpochsError, Run, read_run
from epochcast.analyzer.corpus.table import add_run
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import TRACES
from epochcast.analyzer.traces.trace import Trace, read_traces, traces_of_tables, write_trace
from epochcast.common.files import write_whole
from epochcast.regressor import Catalog
from epochcast.regressor.corpora.run_table import FILE_NAME

#: Keys of a configuration that name the model's architecture, the commonest first.
_NETWORKS = ("network", "model", "model_name", "architecture", "arch")
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


def import_run(path: Path, corpus: Path, catalog: Catalog, options: ImportOptions) -> Run:
    """Bring a run of wandb or TensorBoard (its folder, or its file) into the corpus, a folder; again, it replaces its own row.

    The epochs are those that its history counts, or its steps, or its printed lines, else the detected ones where the detector
    is sure. The trace, and all but the detected epochs, are kept in ``traces/`` as a campaign's are. Raises InputError for a
    run that gives no row, with nothing written, and where the corpus cannot be written.
    """
    recorded = _read(path)
    trace = _trace(recorded, options, str(path))
    # A resumed run is several of one id.
    name = re.sub(r"[^\w.-]+", "_", f"{recorded.id}-{int(trace.time[0])}")
    labels = _labels(recorded, options, trace)
    with TemporaryDirectory(prefix="epochcast-import-") as folder:
        files = write_trace(trace, Path(folder) / f"{name}.parquet"), Path(folder) / f"{name}.json"
        files[1].write_text(json.dumps(labels), encoding="utf-8")
        try:
            run = read_run(*files, catalog, f"{TRACES}/{name}.parquet")
        except NoEpochsError as error:
            raise InputError(
                "neither its history nor its output counts epochs, and its telemetry shows none clearly; give the steps of "
                "one epoch with --steps-per-epoch"
            ) from error
        except ValueError as error:  # the InputError of any room
            raise InputError(str(error)) from error
        make_folder(corpus)
        try:
            (corpus / TRACES).mkdir(exist_ok=True)
            for file in files:
                copy_file(file, corpus / TRACES / file.name)
            add_run(corpus, run)
        except OSError as error:
            raise InputError(f"cannot write the corpus {str(corpus)!r}: {error.strerror or error}") from error
    return run


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
    group = options.group or next((config[key] for key in _NETWORKS if isinstance(config.get(key), str)), None)
    known: dict[str, Any] = {"workload": options.workload or _workload(run), "group": group, "source": trace.source}
    known |= {key: config[key] for key in _SIZES if type(config.get(key)) is int and config[key] >= 1}
    if isinstance(config.get("precision"), str | int):
        known["precision"] = str(config["precision"])
    steps = options.steps_per_epoch or config.get("steps_per_epoch")
    epochs = run.epochs(steps if isinstance(steps, int | float) and steps > 0 else None)
    if epochs is None:
        return known
    reach = float(np.median(np.diff(trace.time))) if len(trace.time) > 1 else 0.0  # of a sample
    first, last = trace.time[0] - reach, trace.time[-1] + reach
    inside = [(start, end) for start, end in zip(epochs.starts, epochs.ends, strict=True) if first <= start and end <= last]
    if len(inside) < 2:
        raise InputError(
            f"{len(inside)} of its {len(epochs.starts)} epochs are within its telemetry, but a period needs two: give a trace "
            "of the same period with --trace"
        )
    starts, ends = zip(*inside, strict=True)
    known |= {"training": True, "epoch_starts": starts, "epoch_ends": ends, "marks": epochs.marks}
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


def make_folder(out: Path) -> None:
    """Make the folder of a corpus if it is not there; InputError where that fails, and for a folder of something else."""
    if out.is_dir():
        if not (out / FILE_NAME).exists() and any(path.name[0] != "." and path.name != TRACES for path in out.iterdir()):
            raise InputError(f"{str(out)!r} is a folder but not a corpus; name a corpus, or a new folder")
        return
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {str(out)!r}: {error.strerror}") from error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file whole or not at all; nothing where there is none, or the target is the same."""
    if not source.is_file() or (target.exists() and filecmp.cmp(source, target, shallow=False)):
        return
    with source.open("rb") as content:
        write_whole(target, lambda file: shutil.copyfileobj(content, file))
