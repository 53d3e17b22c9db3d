"""The true epochs of a trace, from the object of a label file."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from epochcast.detector.errors import InputError


@dataclass(frozen=True)
class Labels:
    """The true epochs of a trace.

    Attributes:
        epoch_starts, epoch_ends: unix seconds, increasing; empty where `training` is false.
        training: false for a trace without any epochs.
        epoch_starts2, epoch_ends2: of a second job that shared the device, empty without one.
        cls: what kind of trace it is, to group by; None if the file does not say.
        steps: a strictly even loop without epochs (`training` is false): the verdict `steps` is right there.
        repo: the repository that a real trace comes from; None if the file does not say.
        simulated: no hardware was read.
    """

    epoch_starts: tuple[float, ...]
    epoch_ends: tuple[float, ...]
    training: bool
    epoch_starts2: tuple[float, ...] = ()
    epoch_ends2: tuple[float, ...] = ()
    cls: str | None = None
    steps: bool = False
    repo: str | None = None
    simulated: bool = False

    @classmethod
    def from_json(cls, labels: Mapping[str, Any]) -> "Labels":
        """Labels from the object of a label file; foreign keys are ignored. Raises InputError if one is missing or wrong."""
        try:
            training = labels["training"]
            starts, ends = _times(labels, "epoch_starts"), _times(labels, "epoch_ends")
        except KeyError as error:
            raise InputError(f"the labels have no {error}: give epoch_starts, epoch_ends and training") from error
        steps = labels.get("steps", False)
        for key, flag in (("training", training), ("steps", steps)):
            if not isinstance(flag, bool):
                raise InputError(f"the labels' {key} is {flag!r}: give true or false")
        if steps and training:
            raise InputError("the labels set both training and steps: steps marks a loop without epochs")
        if training and len(starts) < 2:
            raise InputError(f"the labels of a training have {len(starts)} epoch_starts: a period needs at least 2")
        starts2 = _times(labels, "epoch_starts2") if labels.get("epoch_starts2") else ()
        if training and len(starts2) == 1:
            raise InputError("the labels have 1 epoch_starts2: a period needs at least 2, leave the second job out")
        # The ends of the second job may be missing: then each epoch lasts until the next, and the last has no known end.
        ends2 = _times(labels, "epoch_ends2") if labels.get("epoch_ends2") else (*starts2[1:], *starts2[-1:])
        for mark, first, last in (("", starts, ends), ("2", starts2, ends2)):
            if len(first) != len(last):
                raise InputError(
                    f"the labels have {len(first)} epoch_starts{mark} and {len(last)} epoch_ends{mark}: give one end per start"
                )
            if any(later <= earlier for earlier, later in pairwise(first)):
                raise InputError(f"the labels' epoch_starts{mark} are not increasing: sort them, one per epoch")
        name = labels.get("cls")
        repo, simulated = labels.get("repo"), labels.get("simulated") is True
        return cls(
            starts,
            ends,
            training,
            starts2,
            ends2,
            None if name is None else str(name),
            steps,
            None if repo is None else str(repo),
            simulated,
        )

    @property
    def jobs(self) -> tuple[tuple[tuple[float, ...], tuple[float, ...]], ...]:
        """(starts, ends) of every labelled job, the main one first; none without training."""
        both = ((self.epoch_starts, self.epoch_ends), (self.epoch_starts2, self.epoch_ends2))
        return tuple(job for job in both if job[0]) if self.training else ()


def _times(labels: Mapping[str, Any], key: str) -> tuple[float, ...]:
    try:
        times = tuple(float(value) for value in labels[key])
    except (TypeError, ValueError) as error:
        raise InputError(f"the labels' {key} hold something that is not a number ({error}): give unix seconds") from error
    if not np.isfinite(times).all():
        raise InputError(f"the labels' {key} hold a time that is NaN or infinite: give unix seconds")
    return times
