"""Labelled traces: each with ``NAME.json`` next to it (``epoch_starts``, ``epoch_ends`` as unix seconds, ``training``).

A session of ``record_epochs.py`` in a folder is read too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv, read_text
from epochcast.analyzer.traces.labels import read_label_file, read_labels
from epochcast.analyzer.traces.trace import Trace, make_trace, read_trace
from epochcast.detector.labels import Labels
from lab.corpus import record_epochs

TRACES = "traces"
"""The folder of a corpus that holds the traces of its runs and their labels."""

_TRACE_SUFFIXES = (".parquet", ".csv", ".csv.gz")


def labelled_traces(folder: Path) -> Iterator[tuple[str, Trace, Labels]]:
    """What `labelled_files` names, read: (name, trace, labels); the first that cannot be read ends it with an InputError."""
    for name, load in labelled_files(folder):
        yield (name, *load())


def labelled_files(folder: Path) -> Iterator[tuple[str, Callable[[], tuple[Trace, Labels]]]]:
    """Every trace of ``folder`` that has a label file next to it, and every run of a session of ``record_epochs.py`` in it.

    A corpus has a folder for its traces, which is read instead. Yields (name, load), the former by name, the latter in the
    order of time; ``load()`` gives the trace and its labels, and raises InputError if either cannot be read. Raises InputError
    if the folder is missing or holds none.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder of labelled traces: {str(folder)!r}")
    if (folder / TRACES).is_dir():
        folder = folder / TRACES
    has_trace = False
    for path in sorted(folder.glob("*.json")):
        traces = [path.with_suffix(suffix) for suffix in _TRACE_SUFFIXES if path.with_suffix(suffix).exists()]
        if traces:
            has_trace = True
            yield path.stem, partial(_read, traces[0], path)
    if (folder / "runs.json").exists() and (folder / "telemetry.csv.gz").exists():
        for name, trace, labels in _recorded_runs(folder / "telemetry.csv.gz", folder / "runs.json"):
            has_trace = True
            yield name, partial(held, trace, labels)
    if not has_trace:
        raise InputError(f"{str(folder)!r} holds no trace (.parquet, .csv) with a label file NAME.json next to it")


def _read(trace: Path, labels: Path) -> tuple[Trace, Labels]:
    return read_trace(trace), read_labels(labels)


def held(trace: Trace, labels: Labels) -> tuple[Trace, Labels]:
    """What `labelled_files` yields of a trace that is read already."""
    return trace, labels


def _recorded_runs(telemetry: Path, runs: Path) -> Iterator[tuple[str, Trace, Labels]]:
    name = str(telemetry)
    text = read_text(telemetry)
    if not record_epochs.recognises(text):
        raise InputError(
            f"{name!r} next to {str(runs)!r} is not telemetry of record_epochs.py: it needs time, mono, run, a metric"
        )
    table = parse_csv(text, name)
    frame = record_epochs.convert(table, name)
    for run, rows, marks in record_epochs.labelled(table, read_label_file(runs), str(runs)):
        metadata = {"gpu": marks["gpu"], "source": "record_epochs", "missed_ticks": record_epochs.missed(table[rows])}
        yield run, make_trace(frame[rows].reset_index(drop=True), metadata, f"{name} ({run})"), _labels(marks, runs)


def _labels(content: dict[str, Any], path: Path) -> Labels:
    try:
        return Labels.from_json(content)
    except ValueError as error:
        raise InputError(f"{str(path)!r}: {error}") from error
