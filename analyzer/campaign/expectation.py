"""How long a run will take, from those that were measured already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from .plan import Workload


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
    measured, the median of all. To that comes what runs took beside their epochs.
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
