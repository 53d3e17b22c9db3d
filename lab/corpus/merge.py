"""Merge several corpora into one: each recording once, with its trace and labels. Existing recordings stay.

python -m lab.corpus merge corpus-t4/ corpus-l4/ --out corpus
"""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from epochcast.regressor.corpora.run_table import FILE_NAME, table_file
from lab.corpus.labelled_traces import TRACES
from lab.corpus.run import Run, union
from lab.corpus.table import copy_traces, make_folder, read_runs, write_runs


def options(parser: argparse.ArgumentParser) -> None:
    """Which corpora, and where to."""
    parser.add_argument("corpora", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="corpus folder to write to")


def study(asked: argparse.Namespace) -> dict[str, Any]:
    """Merge them."""
    return merge(asked.corpora, asked.out)


def merge(corpora: Sequence[Path], out: Path) -> dict[str, Any]:
    """Bring the runs of all corpora into the corpus ``out``, which is made if it is not there; its own runs stay.

    Runs alone, with traces and labels: failures and what sampling cost belong to the campaigns. A trace is named after its
    run's identity, so that campaigns of one plan on several GPUs do not collide. Raises InputError for what is no corpus and
    for recordings that contradict each other, before anything is written.
    """
    incoming = [_placed(run, corpus) for corpus in corpora for run in read_runs(corpus)]
    make_folder(out)
    own = read_runs(out) if (out / FILE_NAME).exists() else []
    in_place = {run.identity: run for run in own if run.trace is not None and (out / run.trace).is_file()}
    merged = union([*incoming, *(_placed(run, out) for run in own)])
    runs = [in_place.get(run.identity) or _with_trace(run, out) for run in merged]
    write_runs(out, runs)
    return {"runs": len(runs), "added": len(runs) - len(own), "without_trace": sum(run.trace is None for run in runs)}


def _placed(run: Run, corpus: Path) -> Run:
    """The run with its trace's path from here; without one where the file did not come along."""
    path = None if run.trace is None else table_file(corpus).parent / run.trace
    return replace(run, trace=str(path) if path is not None and path.is_file() else None)


def _with_trace(run: Run, out: Path) -> Run:
    """The run, its trace and labels copied into ``out``."""
    if run.trace is None:
        return run
    readable = re.sub(r"[^\w.-]+", "_", f"{run.run}_{run.profile.gpu}")
    name = f"{readable}_{hashlib.blake2b(repr(run.identity).encode(), digest_size=6).hexdigest()}.parquet"
    copy_traces(Path(run.trace), out / TRACES / name)
    return replace(run, trace=f"{TRACES}/{name}")
