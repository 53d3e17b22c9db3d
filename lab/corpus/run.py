"""One finished run of a corpus: what was trained on which device, and the profile over its true epochs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from epochcast.analyzer.corpus.labelled_profile import CPU_SOURCE, profile_beside, read_workload
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_label_file
from epochcast.analyzer.traces.trace import read_trace
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.corpora.run_table import FIELD_COLUMNS, STATISTIC_COLUMNS, row_profile

Device = Literal["gpu", "cpu"]

DETECTED = "detected"
"""Says of a run that no label file gives its epochs."""


@dataclass(frozen=True)
class Run:
    """A finished run, a row of the corpus.

    Attributes:
        run: its name within the campaign, that of its trace without the suffix.
        device: what it ran on; a CPU's run has the epoch's seconds and no statistics.
        recorded_at: when the trace begins [unix s].
        profile: over the true epochs; ``gpu`` is the catalogue's name, else the device's own.
        source: what read the telemetry (``nvml``, ``host``, …).
        missed_ticks: samples that the agent could not take.
        samples, batch_size, image_size: images of an epoch, of a batch, and pixels of their side, where the labels say them.
        precision: of the arithmetic (``fp32``, ``amp``), where the labels say it.
        marks: what says the epochs where the training did not itself: ``history``, ``steps`` or ``output`` of an imported run,
            or ``detected``.
        trace: the trace's file relative to the corpus, None where it did not come along.
    """

    run: str
    device: Device
    recorded_at: float
    profile: Profile
    source: str | None = None
    missed_ticks: int = 0
    samples: int | None = None
    batch_size: int | None = None
    image_size: int | None = None
    precision: str | None = None
    marks: str | None = None
    trace: str | None = None

    @property
    def identity(self) -> tuple[str, str, str, float]:
        """GPU, workload, name and time: equal for one recording in any number of corpora."""
        return self.profile.gpu, self.profile.workload or "", self.run, self.recorded_at

    def row(self) -> dict[str, Any]:
        """The columns of this run."""
        return {name: getattr(self, name) for name in OWN_COLUMNS} | profile_row(self.profile)

    @classmethod
    def of_row(cls, row: Mapping[str, Any], number: int, path: Path) -> Run:
        """The run in a row; its number and ``path`` are for the message of the InputError if it is none."""
        profile = row_profile(row, number, path)
        values: dict[str, Any] = {name: row.get(name) for name in OWN_COLUMNS}
        for name, value in values.items():
            # pandas makes floats of whole numbers in a column with gaps.
            if name in _INTEGERS and isinstance(value, float) and value.is_integer():
                values[name] = int(value)
        values["missed_ticks"] = values["missed_ticks"] or 0
        if profile.workload is None or profile.epoch_s is None:
            lacks = "workload" if profile.workload is None else "epoch_s"
            raise InputError(f"row {number} of {str(path)!r} has no {lacks}; remove it, or record the run again")
        return cls(profile=profile, **values)


OWN_COLUMNS = tuple(field.name for field in fields(Run) if field.name != "profile")
"""Columns of a row in addition to those of its profile."""

_INTEGERS = ("samples", "batch_size", "image_size", "missed_ticks")


def read_run(trace: Path, labels: Path, catalog: Catalog, name: str) -> Run:
    """The run of a trace and its label file; ``name`` is where the corpus keeps the trace.

    Raises InputError if either file is not what it must be, and where neither labels nor detection have epochs.
    """
    recorded, workload, told = read_trace(trace), read_workload(labels), read_label_file(labels)
    return Run(
        run=trace.stem,
        device="cpu" if recorded.source == CPU_SOURCE else "gpu",
        recorded_at=float(recorded.time[0]),
        profile=profile_beside(recorded, labels, workload, catalog),
        source=recorded.source,
        missed_ticks=recorded.missed_ticks,
        samples=told.get("samples"),
        batch_size=workload.batch_size,
        image_size=told.get("image_size"),
        precision=workload.precision,
        marks=told.get("marks") if workload.has_marks else DETECTED,
        trace=name,
    )


def profile_row(profile: Profile) -> dict[str, Any]:
    """Return the profile's columns, the opposite of `row_profile`; statistics that it lacks are left out."""
    statistics = {
        column: profile.metrics[metric][statistic]
        for column, (metric, statistic) in STATISTIC_COLUMNS.items()
        if metric in profile.metrics
    }
    return {name: getattr(profile, name) for name in FIELD_COLUMNS} | statistics


def union(runs: Iterable[Run]) -> list[Run]:
    """Every recording once, by its identity, in the order of time, not in the order given.

    One that is there with and without its trace is kept with it. Raises InputError for a recording of which two different
    rows are there.
    """
    kept: dict[tuple[str, str, str, float], Run] = {}
    for run in runs:
        other = kept.setdefault(run.identity, run)
        if replace(other, trace=run.trace) != run:
            raise InputError(f"the corpora hold different results for {run.identity}; delete the wrong row from its table")
        if other.trace is None or (run.trace is not None and run.trace < other.trace):
            kept[run.identity] = run
    return sorted(kept.values(), key=lambda run: (run.recorded_at, run.identity))
