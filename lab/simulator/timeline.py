"""What a process does on the device, as a list of phases in continuous time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.int64]

TICK_S = 0.1  # 10 Hz, as in the paper, section III-A


class Phase(IntEnum):
    """What the process does at one moment; the columns of the table of levels."""

    PARKED, WAIT, SETUP, COPY, FORWARD, BACKWARD, UPDATE, VALIDATE, SAVE, SERVE = range(10)


#: Phases whose length depends on how fast the device runs.
ON_DEVICE = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.VALIDATE, Phase.SERVE)


def _none() -> Indices:
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class SimulatedTimeline:
    """Segments, one after the other.

    Attributes:
        phases: (n,) values of `Phase`.
        seconds: (n,) lengths.
        clock: (n,) the device's clock during each segment, relative to what it would be otherwise.
        starts: (k,) index of the first segment of each epoch.
        ends: (k,) index of the first segment after each epoch.
    """

    phases: Indices
    seconds: Array
    clock: Array
    starts: Indices = field(default_factory=_none)
    ends: Indices = field(default_factory=_none)

    @classmethod
    def of(cls, phases: Sequence[Phase] | Indices, seconds: Sequence[float] | Array) -> SimulatedTimeline:
        """Segments without epochs, at full clock."""
        lengths = np.asarray(seconds, dtype=np.float64)
        return cls(np.asarray(phases, dtype=np.int64), lengths, np.ones(lengths.size))

    @property
    def length_s(self) -> float:
        """All segments together [s]."""
        return float(self.seconds.sum())

    def marks(self) -> tuple[Array, Array]:
        """Starts and ends of the epochs, each (k,), in seconds from the timeline's beginning."""
        edges = np.concatenate([[0.0], np.cumsum(self.seconds)])
        return edges[self.starts], edges[self.ends]

    def slowed(self, begin_s: float, end_s: float, speed: float) -> SimulatedTimeline:
        """The device's clock is `speed` times as fast between two times [s], both counted before it slows down."""
        middle = np.cumsum(self.seconds) - self.seconds / 2
        inside = (middle >= begin_s) & (middle < end_s)
        longer = np.where(inside & np.isin(self.phases, ON_DEVICE), 1 / speed, 1.0)
        return replace(self, seconds=self.seconds * longer, clock=self.clock * np.where(inside, speed, 1.0))

    def until_epoch(self, epoch: int, *, lost: float) -> SimulatedTimeline:
        """What there is of the timeline if it is killed when that epoch, counted from 0, has done the share `lost`.

        The epoch that is not finished does not count.
        """
        last = int(self.starts[epoch] + lost * (self.ends[epoch] - self.starts[epoch]))
        return SimulatedTimeline(
            self.phases[:last], self.seconds[:last], self.clock[:last], self.starts[:epoch], self.ends[:epoch]
        )

    def shares(self, ticks: int) -> Array:
        """Part of each tick spent in each phase, shape (ticks, phases); parked after the end. Exact, not sampled."""
        edges = np.concatenate([[0.0], np.cumsum(self.seconds)])
        ticked = TICK_S * np.arange(ticks + 1)
        spent = np.zeros((ticks, len(Phase)))
        for phase in np.unique(self.phases):
            total = np.concatenate([[0.0], np.cumsum(np.where(self.phases == phase, self.seconds, 0.0))])
            spent[:, phase] = np.diff(np.interp(ticked, edges, total)) / TICK_S
        spent[:, Phase.PARKED] += 1 - spent.sum(axis=1)
        return np.clip(spent, 0.0, 1.0)

    def clocks(self, ticks: int) -> Array:
        """Mean relative clock of each tick, (ticks,); 1 after the end."""
        edges = np.concatenate([[0.0], np.cumsum(self.seconds)])
        total = np.concatenate([[0.0], np.cumsum(self.seconds * self.clock)])
        ticked = TICK_S * np.arange(ticks + 1)
        beyond = np.maximum(ticked - edges[-1], 0.0)
        return np.asarray(np.diff(np.interp(ticked, edges, total) + beyond) / TICK_S)


def join(*parts: SimulatedTimeline) -> SimulatedTimeline:
    """One timeline after the other, with the epochs of all."""
    offsets = np.concatenate([[0], np.cumsum([len(part.phases) for part in parts])])
    return SimulatedTimeline(
        np.concatenate([part.phases for part in parts]),
        np.concatenate([part.seconds for part in parts]),
        np.concatenate([part.clock for part in parts]),
        np.concatenate([part.starts + offset for part, offset in zip(parts, offsets, strict=False)]),
        np.concatenate([part.ends + offset for part, offset in zip(parts, offsets, strict=False)]),
    )


def pause(phase: Phase, seconds: float) -> SimulatedTimeline:
    """One segment."""
    return SimulatedTimeline.of([phase], [seconds])
