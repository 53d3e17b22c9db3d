"""One finished run of a corpus: what was trained on which device, and the profile over its true epochs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from epochcast.analyzer.answers.sources import profile_of
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.labels import read_label_file, read_labels
from epochcast.analyzer.traces.trace import Trace, read_trace
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.corpora.run_table import profile_row, row_profile
from epochcast.regressor.precision import precision_of
from epochcast.regressor.summary import summarise

Device = Literal["gpu", "cpu"]

DETECTED = "detected"
"""Says of a run that no label file gives its epochs."""

CPU_SOURCE = "host"
"""The agent's source that reads the machine's CPUs."""


class NoEpochsError(InputError):
    """A trace in which no epochs were found, and next to which no file has them."""


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
        for name, (is_right, what) in _CHECKS.items():
            if not is_right(values[name]):
                raise InputError(f"row {number} of {str(path)!r} has {name} {values[name]!r}; it must be {what}")
        if profile.workload is None or profile.epoch_s is None:
            lacks = "workload" if profile.workload is None else "epoch_s"
            raise InputError(f"row {number} of {str(path)!r} has no {lacks}; remove it, or record the run again")
        return cls(profile=profile, **values)


OWN_COLUMNS = tuple(field.name for field in fields(Run) if field.name != "profile")
"""Columns of a row in addition to those of its profile."""

_INTEGERS = ("samples", "batch_size", "image_size", "missed_ticks")
_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "run": (lambda value: isinstance(value, str) and value != "", "a name"),
    "device": (lambda value: value in ("gpu", "cpu"), "'gpu' or 'cpu'"),
    "recorded_at": (lambda value: isinstance(value, float), "unix seconds"),
    **dict.fromkeys(_INTEGERS, (lambda value: value is None or type(value) is int, "a whole number, or empty")),
    **dict.fromkeys(
        ("source", "precision", "marks", "trace"), (lambda value: value is None or isinstance(value, str), "text, or empty")
    ),
}


def read_run(trace: Path, labels: Path, catalog: Catalog, name: str) -> Run:
    """The run of a trace and its label file; ``name`` is where the corpus keeps the trace.

    Raises InputError if either file is not what it must be, and where neither labels nor detection have epochs.
    """
    recorded, workload = read_trace(trace), read_workload(labels)
    return Run(
        run=trace.stem,
        device="cpu" if recorded.source == CPU_SOURCE else "gpu",
        recorded_at=float(recorded.time[0]),
        profile=profile_beside(recorded, labels, workload, catalog),
        source=recorded.source,
        missed_ticks=recorded.missed_ticks,
        samples=workload.samples,
        batch_size=workload.batch_size,
        image_size=workload.image_size,
        precision=workload.precision,
        marks=workload.marks if workload.has_marks else DETECTED,
        trace=name,
    )


def profile_beside(trace: Trace, labels: Path, workload: Workload, catalog: Catalog) -> Profile:
    """The profile over the true epochs that the file next to the trace holds, else over those that are detected.

    Raises InputError for labels of no training and for a trace that does not name its device, NoEpochsError without any epochs.
    """
    profile = labelled_profile(trace, labels, catalog) if workload.has_marks else profile_of(trace, catalog)[0]
    if profile.unit != "epoch":
        cause = f"only {profile.unit}s of {profile.epoch_s:.3g} s were" if profile.epoch_s is not None else "no epochs were"
        raise NoEpochsError(f"{cause} found in it; give its epoch_starts and epoch_ends in {labels.name}, or remove it")
    return replace(
        profile,
        workload=workload.workload,
        group=workload.group,
        precision=precision_of(workload.precision),
        batch=workload.batch_size,
    )


def labelled_profile(trace: Trace, labels: Path, catalog: Catalog) -> Profile:
    """The profile over the true epochs, measured, so that its epoch has the interval of their scatter alone.

    A device that the catalogue lacks keeps its own name: a GPU's run can still be used with a catalogue that has it, and a
    CPU's profile has no statistics. Raises InputError for labels of no training and for a trace that does not name its device.
    """
    marks = read_labels(labels)
    if not marks.training:
        raise InputError(f"{labels.name} marks it as no training run; remove it")
    if trace.gpu is None:
        raise InputError("the trace does not name its GPU; write the GPU's name into the metadata ('gpu')")
    try:
        gpu = catalog.resolve(trace.gpu).name
    except ValueError:  # the regressor's InputError: unknown or ambiguous
        gpu = trace.gpu
    spans = list(zip(marks.epoch_starts, marks.epoch_ends, strict=True))
    metrics = {} if trace.source == CPU_SOURCE else trace.metrics()
    return summarise(gpu, trace.time, metrics, spans, simulated=trace.simulated)


_MOST = 2**62  # what a table's whole numbers hold, with room


@dataclass(frozen=True)
class Workload:
    """What was trained.

    Attributes:
        workload: equal on every device for equal work per epoch, so that its runs make pairs.
        group: its family, a model architecture; None where the file does not say.
        has_marks: whether the file holds the true epochs too.
        samples, batch_size, image_size: images of an epoch, of a batch, and pixels of their side, where it says them.
        precision: of the arithmetic (``fp32``, ``amp``), where it says it.
        marks: how the true epochs became known, where the training did not mark them itself.
    """

    workload: str
    group: str | None
    has_marks: bool
    samples: int | None
    batch_size: int | None
    image_size: int | None
    precision: str | None
    marks: str | None


def read_workload(path: Path) -> Workload:
    """Read a label file; InputError if it says no workload, or something that is no name or number."""
    if not path.exists():
        raise InputError(f'there is no {path.name} next to it; write it with the workload, e.g. {{"workload": "resnet50"}}')
    labels = read_label_file(path)
    workload, group = labels.get("workload"), labels.get("group")
    if not isinstance(workload, str) or not workload:
        raise InputError(f'{str(path)!r} has workload {workload!r}; give the workload, e.g. {{"workload": "resnet50|64|224"}}')
    group = labels.get("cls") if group is None else group
    if group is not None and not isinstance(group, str):
        raise InputError(f"{str(path)!r} has group {group!r}; give the name of the family, or leave it out")
    sizes = {key: _count(labels, key, path) for key in ("samples", "batch_size", "image_size")}
    precision, marks = (_text_of(labels, key, path) for key in ("precision", "marks"))
    return Workload(workload, group, "epoch_starts" in labels, precision=precision, marks=marks, **sizes)


def _text_of(labels: dict[str, Any], key: str, path: Path) -> str | None:
    value = labels.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{str(path)!r} has {key} {value!r:.60}; give its name, or leave it out")
    return value


def _count(labels: dict[str, Any], key: str, path: Path) -> int | None:
    value = labels.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST):
        raise InputError(f"{str(path)!r} has {key} {value!r:.60}; it must be a whole number above 0, or left out")
    return value
