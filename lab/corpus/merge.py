"""Several corpora as one: each recording once, with its trace and labels."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.regressor.corpora.run_table import FILE_NAME, table_file
from lab.corpus.imported import copy_file, make_folder
from lab.corpus.labelled_traces import TRACES
from lab.corpus.run import Run, union
from lab.corpus.table import locked, read_runs, write_runs


@dataclass(frozen=True)
class Merged:
    """What a merge made: runs in all, how many of them are new in it, and how many came without their trace."""

    runs: int
    added: int
    without_trace: int


def merge(corpora: Sequence[Path], out: Path) -> Merged:
    """Bring the runs of all corpora into the corpus ``out``, which is made if it is not there; its own runs stay.

    Runs alone, with traces and labels: failures and what sampling cost belong to the campaigns. The result is the same in
    in any order, and the same again if they are merged once more. A trace is named after its run's identity,
    so that campaigns of one plan on several GPUs do not collide. Whenever it is stopped, the table is the old or the new one.
    Raises InputError for what is no corpus and for recordings that contradict each other, before anything is written, and where
    ``out`` cannot be written.
    """
    incoming = [_placed(run, corpus) for corpus in corpora for run in read_runs(corpus)]
    make_folder(out)
    try:
        with locked(out):
            own = read_runs(out) if (out / FILE_NAME).exists() else []
            placed = [_placed(run, out) for run in own]
            in_place = {run.identity: run for run, placed_run in zip(own, placed, strict=True) if placed_run.trace is not None}
            merged = union([*incoming, *placed])
            runs = [in_place.get(run.identity) or _with_trace(run, out) for run in merged]
            write_runs(out, runs)
    except OSError as error:
        raise InputError(f"cannot write the corpus {str(out)!r}: {error.strerror or error}") from error
    return Merged(len(runs), len(runs) - len(own), sum(run.trace is None for run in runs))


def _placed(run: Run, corpus: Path) -> Run:
    """The run with its trace's path from here; without one where the file did not come along."""
    if run.trace is None:
        return run
    folder = table_file(corpus).parent
    path = Path(os.path.relpath(folder / run.trace, folder))  # no link is followed: traces may lie on another disk
    if path.is_relative_to(os.pardir):
        raise InputError(
            f"{str(corpus)!r} places the trace of run {run.run!r} at {run.trace!r}, outside the corpus; correct it"
        )
    return replace(run, trace=str(folder / path) if (folder / path).is_file() else None)


def _with_trace(run: Run, out: Path) -> Run:
    """The run, its trace and labels copied into ``out``."""
    if run.trace is None:
        return run
    source, name = Path(run.trace), f"{TRACES}/{_file_name(run)}"
    (out / TRACES).mkdir(exist_ok=True)
    for suffix in (source.suffix, ".json"):
        copy_file(source.with_suffix(suffix), (out / name).with_name(f"{Path(name).name}{suffix}"))
    return replace(run, trace=name + source.suffix)


def _file_name(run: Run) -> str:
    """Of the trace, without suffix: the run and the GPU to be read, and the identity to be unique."""
    readable = re.sub(r"[^\w.-]+", "_", f"{run.run}_{run.profile.gpu}")
    return f"{readable}_{hashlib.blake2b(repr(run.identity).encode(), digest_size=6).hexdigest()}"
