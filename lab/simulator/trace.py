"""A simulated trace: readings, and the truth about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SimulatedTrace:
    """One simulated trace and its true marks.

    Attributes:
        time: (n,) unix seconds, one row per 0.1 s tick (1 s `logged`, 10 to 30 s `sparse`), stamped at the end of the interval
            that it averages.
        metrics: name of the metric catalogue -> (n,) in base units; a slow metric is NaN between its readings, once a second.
        epoch_starts, epoch_ends: (k,) unix seconds, empty where `training` is false.
        training: whether there are epochs to be found.
        gpu: name of the device, as nvidia-smi gives it.
        cls: the class that the trace was drawn from, a key of `CLASSES`; empty for a job of given lengths.
        epoch_starts2, epoch_ends2: those of a second job on the same device; empty where there is none.
        settings: what the trace was made with.
        steps: whether it is a strictly even loop without epochs, so that the verdict `steps` is right.
    """

    time: Array
    metrics: dict[str, Array]
    epoch_starts: Array
    epoch_ends: Array
    training: bool
    gpu: str
    cls: str = ""
    epoch_starts2: Array = field(default_factory=lambda: np.empty(0))
    epoch_ends2: Array = field(default_factory=lambda: np.empty(0))
    settings: dict[str, Any] = field(default_factory=dict)
    steps: bool = False

    def labels(self) -> dict[str, Any]:
        """The marks as the object of a label file (`NAME.json` next to a trace)."""
        second = {"epoch_starts2": self.epoch_starts2.tolist(), "epoch_ends2": self.epoch_ends2.tolist()}
        return {
            "epoch_starts": self.epoch_starts.tolist(),
            "epoch_ends": self.epoch_ends.tolist(),
            **(second if self.epoch_starts2.size else {}),
            "training": self.training,
            **({"steps": True} if self.steps else {}),
            **({"cls": self.cls} if self.cls else {}),
            "simulated": True,
            "settings": self.settings,
        }
