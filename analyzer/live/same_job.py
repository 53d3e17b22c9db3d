"""Whether a GPU runs the same job after a hole in its telemetry: its processes say so, else its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from epochcast.analyzer.telemetry.gpu_report import Owner, Report, trainers
from epochcast.detector import Epoch
from epochcast.detector.methods.track.boundaries import EVEN, typical
from epochcast.detector.methods.track.periods import same
from epochcast.detector.stream.follower import OVERDUE
from epochcast.detector.stream.work import PAUSE_LEAST, hole_s

LONGEST_HOLE_S = 3600.0
"""A job may go on after a hole of so long; after a longer one there is another. By choice."""

_NORMAL = 1.48  # standard deviations to a median absolute deviation


@dataclass(frozen=True)
class Hole:
    """Time of which no sample came.

    Attributes:
        begin: unix seconds of the last sample before it.
        end: of the first after it.
        owners: processes on the GPU before it.
    """

    begin: float
    end: float
    owners: tuple[Owner, ...]

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin

    def is_bridged(self, hertz: float) -> bool:
        """Whether the stream goes on after it; otherwise it starts again."""
        return self.seconds <= hole_s(1 / hertz)

    def kept_by(self, owners: Sequence[Owner]) -> bool | None:
        """Whether the processes before it and these are of one job, by the first that both name; None where they do not say."""
        for field in ("slurm_job", "pod", "container", "pid"):
            names, others = ({getattr(owner, field) for owner in trainers(each)} - {""} for each in (self.owners, owners))
            if names and others:
                return bool(names & others)
        return None

    def may_keep(self, before: Report, since: float) -> bool:
        """Whether work since then may be of the job that was reported before; processes and epochs have yet to show it."""
        rest = max(rest_s(before.hertz), OVERDUE * (before.detection.period_s or 0.0))
        if before.state == "idle" or self.seconds > LONGEST_HOLE_S or since - self.end > rest:
            return False
        return self.is_bridged(before.hertz) or bool(before.epochs or trainers(before.owners))

    def kept_by_epochs(self, before: Report, epochs: Sequence[Epoch]) -> bool:
        """Whether the epochs after it are as long as those before it and, after a long hole, in phase with them.

        When an epoch should begin is known to two standard deviations: lengths scatter, and their mean is that of a few. So the
        longer a hole, the less phase says; in the end equal lengths decide.
        """
        bridged = self.is_bridged(before.hertz)
        if not before.epochs or not epochs:
            return bridged
        lengths, others = (np.array([epoch.end - epoch.start for epoch in each]) for each in (before.epochs, epochs))
        if not same(float(np.median(lengths)), float(np.median(others))):
            return False
        if bridged:
            return True
        lengths = np.concatenate([lengths, others])
        period = typical(lengths)
        scatter = _NORMAL * float(np.median(np.abs(lengths - period)))
        apart = (epochs[0].start - before.epochs[-1].end) / period
        tolerance = EVEN * period + 2 * scatter * np.sqrt(apart + apart**2 / lengths.size)
        return bool(abs(apart - round(apart)) * period <= tolerance)


def rest_s(hertz: float) -> float:
    """Seconds of rest after which a GPU is idle; a hole that is no longer says nothing of jobs."""
    return PAUSE_LEAST / hertz
