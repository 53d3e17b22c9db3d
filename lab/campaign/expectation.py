"""How long a run will take, from those that a corpus already has: there a campaign that was stopped goes on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from lab.campaign.plan import Workload
from lab.corpus.table import append_run, read_runs


@dataclass(frozen=True)
class Measured:
    """A finished run: what it trained on which device, its median epoch and all of it, PyTorch's loading included [s]."""

    workload: Workload
    device: str
    epochs: int
    epoch_s: float
    seconds: float

    @classmethod
    def of_labels(cls, labels: dict[str, Any]) -> Measured:
        """From a run's label file; KeyError, TypeError or ValueError if it is no campaign's."""
        workload = Workload(**{name: labels[name] for name in Workload.model_fields})
        lengths = [end - start for start, end in zip(labels["epoch_starts"], labels["epoch_ends"], strict=True)]
        return cls(workload, labels["device"], len(lengths), median(lengths[1:] or lengths), float(labels["seconds"]))


def expected_s(workload: Workload, epochs: int, measured: Sequence[Measured]) -> float | None:
    """Seconds that training ``workload`` for ``epochs`` epochs will take; None as long as nothing was measured.

    Seconds per pixel of the run of the same network whose step has the most similar number of pixels; for a network not yet
    measured, the median of all. To that comes what runs took in addition to their epochs.
    """
    if not measured:
        return None
    same = [run for run in measured if run.workload.network == workload.network]
    if same:
        rate = _rate(min(same, key=lambda run: abs(_step_pixels(run.workload) - _step_pixels(workload))))
    else:
        rate = median(map(_rate, measured))
    beside = median(run.seconds - run.epochs * run.epoch_s for run in measured)
    return max(0.0, beside) + epochs * rate * workload.samples * workload.image_size**2


def _rate(run: Measured) -> float:
    return run.epoch_s / (run.workload.samples * run.workload.image_size**2)


def _step_pixels(workload: Workload) -> int:
    return workload.batch_size * workload.image_size**2


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
            except ValueError:  # it makes no row: it is recorded again
                continue
    runs = read_runs(corpus) if table.exists() else []
    return {run.run: None if run.trace is None else _measured((corpus / run.trace).with_suffix(".json")) for run in runs}


def _measured(labels: Path) -> Measured | None:
    try:
        return Measured.of_labels(json.loads(labels.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
