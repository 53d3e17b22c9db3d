"""The profile of a trace over the epochs that the file next to it tells, or over those that are found in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.sources import profile_of
from epochcast.analyzer.traces.labels import read_label_file, read_labels
from epochcast.analyzer.traces.trace import Trace
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.precision import precision_of
from epochcast.regressor.summary import summarise

CPU_SOURCE = "host"
"""The agent's source that reads the machine's CPUs."""


class NoEpochsError(InputError):
    """A trace in which no epochs were found, and next to which no file has them."""


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
        batch_size: images of a batch, where it says it.
        precision: of the arithmetic (``fp32``, ``amp``), where it says it.
    """

    workload: str
    group: str | None
    has_marks: bool
    batch_size: int | None
    precision: str | None


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
    precision = labels.get("precision")
    if precision is not None and not isinstance(precision, str):
        raise InputError(f"{str(path)!r} has precision {precision!r:.60}; give its name, or leave it out")
    batch = labels.get("batch_size")
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or not 1 <= batch <= _MOST):
        raise InputError(f"{str(path)!r} has batch_size {batch!r:.60}; it must be a whole number above 0, or left out")
    return Workload(workload, group, "epoch_starts" in labels, batch_size=batch, precision=precision)
