"""True epoch marks, ``NAME.json`` beside a trace: ``epoch_starts``, ``epoch_ends`` (same clock as ``time``), ``training``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from ..detector.evaluation import Labels
from .errors import InputError
from .trace import Trace, read_trace

_TRACE_SUFFIXES = (".parquet", ".csv", ".csv.gz")


def read_labels(path: Path) -> Labels:
    """Read a label file; InputError with one sentence if it is missing, not JSON, or not labels."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"no label file {str(path)!r} beside the trace") from None
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not UTF-8, not JSON, or too long an integer
        raise InputError(f"{str(path)!r} is not a readable label file: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{str(path)!r} is a JSON {type(content).__name__}, not an object with epoch_starts and epoch_ends")
    try:
        return Labels.from_json(content)
    except ValueError as error:
        raise InputError(f"{str(path)!r}: {error}") from error


def labelled_traces(folder: Path) -> Iterator[tuple[str, Trace, Labels]]:
    """Every trace of ``folder`` that has a label file beside it, as (name, trace, labels), by name.

    Raises InputError if the folder is missing or holds none.
    """
    if not folder.is_dir():
        raise InputError(f"no such folder of labelled traces: {str(folder)!r}")
    found = False
    for path in sorted(folder.glob("*.json")):
        traces = [path.with_suffix(suffix) for suffix in _TRACE_SUFFIXES if path.with_suffix(suffix).exists()]
        if traces:
            found = True
            yield path.stem, read_trace(traces[0]), read_labels(path)
    if not found:
        raise InputError(f"{str(folder)!r} holds no trace (.parquet, .csv) with a label file NAME.json beside it")
