"""``CORPUS/corpus.parquet``: the runs of a corpus, read, and written whole (columns: `regressor/corpora/run_table.py`)."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from epochcast.analyzer.errors import InputError
from epochcast.common.files import write_whole
from epochcast.regressor import load_catalog
from epochcast.regressor.corpora.run_table import FILE_NAME, STATISTIC_COLUMNS, read_rows
from lab.corpus.labelled_traces import TRACES
from lab.corpus.run import Run, read_run

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

    A run of the same trace file is replaced, because the file was rewritten. Raises InputError if either file is not what it
    must be, or the table cannot be written: the old one stays.
    """
    add_run(corpus, read_run(trace, labels, load_catalog(), trace.relative_to(corpus).as_posix()))


def add_run(corpus: Path, run: Run) -> None:
    """Add a run to the corpus in place of the one with the same trace."""
    runs = read_runs(corpus) if (corpus / FILE_NAME).exists() else []
    # A merge renames a trace, but not its run.
    name = next((other.run for other in runs if other.trace == run.trace), run.run)
    write_runs(corpus, [*(other for other in runs if other.trace != run.trace), replace(run, run=name)])


def write_runs(corpus: Path, runs: Sequence[Run]) -> None:
    """Write the table of a corpus, whole or not at all."""
    table = pa.Table.from_pylist([run.row() for run in runs], schema=pa.schema(_COLUMNS))
    write_whole(corpus / FILE_NAME, lambda file: pq.write_table(table, file, compression="zstd"))


def make_folder(out: Path) -> None:
    """Make the folder of a corpus if it is not there; InputError for a folder of something else."""
    others = [path for path in out.iterdir() if path.name[0] != "." and path.name != TRACES] if out.is_dir() else []
    if others and not (out / FILE_NAME).exists():
        raise InputError(f"{str(out)!r} is a folder but not a corpus; name a corpus, or a new folder")
    (out / TRACES).mkdir(parents=True, exist_ok=True)


def copy_traces(trace: Path, target: Path) -> None:
    """Copy a trace and, where it has one, its label file."""
    for suffix in (trace.suffix, ".json"):
        if trace.with_suffix(suffix).is_file():
            shutil.copyfile(trace.with_suffix(suffix), target.with_suffix(suffix))
