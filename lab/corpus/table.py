"""``CORPUS/corpus.parquet``: the runs of a corpus, read, and written whole (columns: `regressor/corpora/run_table.py`)."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole
from epochcast.regressor import load_catalog
from epochcast.regressor.corpora.run_table import FILE_NAME, METADATA_KEY, SCHEMA, STATISTIC_COLUMNS, read_rows
from lab.corpus.run import Run, read_run

_WAIT_S = 60.0  # writing a table takes milliseconds, on a slow network file system seconds

_TEXT, _INTEGER, _NUMBER, _FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_COLUMNS = {
    "run": _TEXT,
    "device": _TEXT,
    "gpu": _TEXT,
    "workload": _TEXT,
    "group": _TEXT,
    "samples": _INTEGER,
    "batch_size": _INTEGER,
    "image_size": _INTEGER,
    "precision": _TEXT,
    "marks": _TEXT,
    "epoch_s": _NUMBER,
    "epoch_s_low": _NUMBER,
    "epoch_s_high": _NUMBER,
    "unit": _TEXT,
    "epochs": _INTEGER,
    "first_epoch_excluded": _FLAG,
    "first_epoch_s": _NUMBER,
    "stalls": _INTEGER,
    "stall_s": _NUMBER,
    "step_s": _NUMBER,
    "simulated": _FLAG,
    "feature_set": _TEXT,
    "source": _TEXT,
    "recorded_at": _NUMBER,
    "missed_ticks": _INTEGER,
    "trace": _TEXT,
    **dict.fromkeys(STATISTIC_COLUMNS, _NUMBER),
}


def read_runs(corpus: Path) -> list[Run]:
    """The runs of a corpus, given as its folder or its table, in the order in which they finished.

    Raises InputError if there is none, or naming the row that is no run.
    """
    return [Run.of_row(row, number, corpus) for number, row in enumerate(read_rows(corpus), start=1)]


def append_run(corpus: Path, trace: Path, labels: Path) -> None:
    """Add the run of ``trace`` (a file within the folder ``corpus``) and its label file to the corpus.

    A run of the same trace file is replaced, because the file was rewritten. At any stop the table is the old or the new
    one. Raises InputError if either file is not what it must be, OSError if the table cannot be written (a full disk, another
    process that keeps writing: the old one stays).
    """
    # Links are not followed: a folder's traces may lie on another disk.
    path = Path(os.path.relpath(trace, corpus))
    if path.is_relative_to(os.pardir):
        raise InputError(f"{str(trace)!r} is outside the corpus {str(corpus)!r}; move it and its labels there")
    add_run(corpus, read_run(trace, labels, load_catalog(), path.as_posix()))


def add_run(corpus: Path, run: Run) -> None:
    """Add a run to the corpus in place of the one with the same trace; raises OSError like `append_run`."""
    with locked(corpus):
        runs = read_runs(corpus) if (corpus / FILE_NAME).exists() else []
        # A merge renames a trace, but not its run.
        name = next((other.run for other in runs if other.trace == run.trace), run.run)
        try:
            write_runs(corpus, [*(other for other in runs if other.trace != run.trace), replace(run, run=name)])
        except InputError as error:
            # A full disk is no fault of this run: the caller must see that it is the disk.
            if isinstance(error.__cause__, OSError):
                raise error.__cause__ from None
            raise


def write_runs(corpus: Path, runs: Sequence[Run]) -> None:
    """Write the table of a corpus, whole or not at all; InputError if that is not possible."""
    metadata = {METADATA_KEY: json.dumps({"schema": SCHEMA})}
    table = pa.Table.from_pylist([run.row() for run in runs], schema=pa.schema(_COLUMNS, metadata=metadata))
    write_whole(corpus / FILE_NAME, lambda file: pq.write_table(table, file, compression="zstd"))


@contextmanager
def locked(corpus: Path) -> Iterator[None]:
    """Keep other processes from writing the corpus; TimeoutError (an OSError) if one does so for a minute."""
    lock = FileLock(corpus / f".{FILE_NAME}.lock", timeout=_WAIT_S)
    try:
        lock.acquire()
    except Timeout:
        sentence = f"another process has been writing to it for {_WAIT_S:.0f} s; let it end and start again"
        raise TimeoutError(errno.ETIMEDOUT, sentence) from None
    try:
        yield
    finally:
        lock.release()
