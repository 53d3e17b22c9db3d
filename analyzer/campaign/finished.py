"""What a corpus already has of a campaign: where one that was stopped goes on."""

from __future__ import annotations

import json
from pathlib import Path

from ..corpus import append_run, read_runs
from .expectation import Measured


def finished_runs(corpus: Path) -> dict[str, Measured | None]:
    """Name of each run in the corpus -> what it measured, None where its labels are not a campaign's.

    A run that was recorded but not added, as where the disk was full, is added first. Raises InputError for a table
    that cannot be read, OSError if it cannot be written.
    """
    table = corpus / "corpus.parquet"
    kept = {run.trace for run in read_runs(corpus)} if table.exists() else set()
    for labels in sorted((corpus / "traces").glob("*.json")):
        trace = labels.with_suffix(".parquet")
        if trace.relative_to(corpus).as_posix() not in kept:
            try:
                append_run(corpus, trace, labels)
            except ValueError:  # it makes no row: it is recorded anew
                continue
    runs = read_runs(corpus) if table.exists() else []
    return {run.run: None if run.trace is None else _measured((corpus / run.trace).with_suffix(".json")) for run in runs}


def _measured(labels: Path) -> Measured | None:
    try:
        return Measured.of_labels(json.loads(labels.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
