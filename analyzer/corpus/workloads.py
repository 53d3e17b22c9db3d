"""What ``NAME.json`` beside a trace says was trained: ``workload``, ``group`` and the sizes of the work."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..traces.labels import read_label_file

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
        raise InputError(f'there is no {path.name} beside it; say there what was trained, e.g. {{"workload": "resnet50"}}')
    labels = read_label_file(path)
    workload, group = labels.get("workload"), labels.get("group")
    if not isinstance(workload, str) or not workload:
        raise InputError(
            f'{str(path)!r} has workload {workload!r}; say what was trained, e.g. {{"workload": "resnet50|64|224"}}'
        )
    group = labels.get("cls") if group is None else group
    if group is not None and not isinstance(group, str):
        raise InputError(f"{str(path)!r} has group {group!r}; give the name of the family, or leave it out")
    sizes = {key: _count(labels, key, path) for key in ("samples", "batch_size", "image_size")}
    precision, marks = (_name(labels, key, path) for key in ("precision", "marks"))
    return Workload(workload, group, "epoch_starts" in labels, precision=precision, marks=marks, **sizes)


def _name(labels: dict[str, Any], key: str, path: Path) -> str | None:
    value = labels.get(key)
    if value is not None and not isinstance(value, str):
        raise InputError(f"{str(path)!r} has {key} {value!r:.60}; give its name, or leave it out")
    return value


def _count(labels: dict[str, Any], key: str, path: Path) -> int | None:
    value = labels.get(key)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST):
        raise InputError(f"{str(path)!r} has {key} {value!r:.60}; it must be a whole number above 0, or left out")
    return value
