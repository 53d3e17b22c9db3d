"""The traces of one job, from files and folders: read, and searched together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import source_name
from epochcast.analyzer.traces.known_epochs import checked
from epochcast.analyzer.traces.logs import wandb_run
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.traces.trace import Trace, check_telemetry, read_traces
from epochcast.detector import Detection, JobDetection, detect, detect_job
from epochcast.detector import InputError as NotDetectable
from epochcast.detector.methods.track.periods import SAME

SUFFIXES = (".csv", ".csv.gz", ".parquet", ".pq")
"""How the names of traces in a folder end."""

APART = "the traces hardly overlap in time, so they are not one job: each has its own answer"


def read_job(paths: Sequence[str]) -> list[tuple[str, Trace]]:
    """Read the traces in files, logs of several GPUs and folders, each with the name that messages call it by.

    Of several each has a label of its own: its GPU's where these differ, else the file's name. What was recorded of the host
    next to its GPUs is left out.

    Raises:
        InputError: as `read_traces`, for a folder without a trace, and for a trace that is given twice.
    """
    files = [file for path in paths for file in _files(path)]
    read = [(file, check_telemetry(trace, source_name(file))) for file in files for trace in read_traces(file)]
    return labelled(read)


def labelled(read: Sequence[tuple[str, Trace]]) -> list[tuple[str, Trace]]:
    """The traces of each file that are of GPUs, with labels and names by which they are distinguished.

    Raises:
        InputError: two have one name.
    """
    of_gpus = [(file, trace) for file, trace in read if trace.source != "host"] or read
    several = Counter(file for file, _ in of_gpus)
    named = [
        (f"{source_name(file)}{f', {trace.label}' * (several[file] > 1)}", replace(trace, label=label))
        for label, (file, trace) in zip(_labels(of_gpus), of_gpus, strict=True)
    ]
    if len(of_gpus) < len(read):
        hosts = [f"{file!r} is a host trace, not a GPU trace, and is skipped" for file, trace in read if trace.source == "host"]
        name, first = named[0]
        named[0] = (name, replace(first, notes=(*first.notes, *hosts)))
    return named


def with_known_epochs(named: Sequence[tuple[str, Trace]], epochs: KnownEpochs | None) -> list[tuple[str, Trace]]:
    """The traces with these epochs, those of a run itself where there are none."""
    return [(name, trace if epochs is None else replace(trace, epochs=epochs)) for name, trace in named]


def checked_epochs(detected: JobDetection, traces: Sequence[Trace]) -> tuple[JobDetection, list[str]]:
    """What was found, in favour of epochs that are known, and what the telemetry says of those."""
    known = next((trace.epochs for trace in traces if trace.epochs is not None), None)
    if known is None:
        return detected, []
    time = traces[0].time
    own = detected.gpus[0] if detected.job is None else detected.job
    job, said = checked(known, own, time)
    several = zip(detected.gpus, traces, strict=True)
    gpus = [gpu if place in detected.odd else checked(known, gpu, trace.time)[0] for place, (gpu, trace) in enumerate(several)]
    return JobDetection(None if len(traces) == 1 else job, tuple(gpus), detected.odd), [said]


def detect_together(named: Sequence[tuple[str, Trace]], **options: Any) -> JobDetection:
    """Find the epochs of the job in its traces, as `detect_job` does with these options.

    Raises:
        InputError: as `detect_job`, naming the trace.
    """
    try:
        return detect_job([(trace.time, trace.metrics()) for _, trace in named], **options)
    except NotDetectable:
        for name, trace in named:
            try:
                detect(trace.time, trace.metrics(), **options)
            except NotDetectable as error:
                raise InputError(f"{name!r}: {error}") from error
        raise


def shows(own: Detection, job: Detection) -> bool:
    """Whether what a GPU shows is the job's cycle."""
    if own.period_s is None or job.period_s is None:
        return False
    return own.verdict == job.verdict and abs(math.log(own.period_s / job.period_s)) <= SAME


def _files(path: str) -> list[str]:
    """The traces in a folder, sorted; anything else as it is, a run of wandb too."""
    folder = Path(path)
    if not folder.is_dir():
        return [path]
    files = sorted(str(file) for file in folder.iterdir() if file.name.endswith(SUFFIXES) and file.is_file())
    if not files and wandb_run.run_file(path) is None:
        raise InputError(f"{path!r} is a folder without a trace; a trace is a file whose name ends in {', '.join(SUFFIXES)}")
    return files or [path]


def _labels(read: Sequence[tuple[str, Trace]]) -> list[str | None]:
    """The shortest kind of label that distinguishes them."""
    if len(read) == 1:
        return [read[0][1].label]
    kinds: tuple[Callable[[str, Trace], str], ...] = (
        lambda file, trace: trace.label or _stem(file),
        lambda file, trace: " ".join(filter(None, (_stem(file), trace.label))),
        lambda file, trace: " ".join(filter(None, (file, trace.label))),
    )
    for kind in kinds:
        labels: list[str | None] = [kind(file, trace) for file, trace in read]
        if len(set(labels)) == len(labels):
            return labels
    twice = next(label for label in labels if labels.count(label) > 1)
    raise InputError(f"{twice!r} is given twice; name each trace of a job once")


def _stem(file: str) -> str:
    name = Path(source_name(file)).name
    return name.removesuffix(max((suffix for suffix in SUFFIXES if name.endswith(suffix)), key=len, default=""))
