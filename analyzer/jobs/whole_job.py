"""What a whole job takes on one GPU, with everything that an hour of the instance is paid for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochcast.regressor import Prediction, Profile
from epochcast.regressor.job import estimate_job
from epochcast.regressor.prediction import Estimate

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.placement import Placement

# Of a test run, enough that the detector finds its epochs (it takes 4.5 on average), and no less than a minute of them.
_RUN_EPOCHS = 5
_RUN_S = 60.0

# By choice: what launching an instance takes at least.
_LAUNCH_S = 300.0


@dataclass(frozen=True)
class Work:
    """What is still to be done, as the user knows it.

    Attributes:
        epochs: epochs (or steps, by the profile's unit) that remain.
        startup_s: seconds from the order of an instance to the first epoch (boot, image, data); paid for, and the same
            everywhere.
        name: what it is, for people; empty: so many epochs, cycles or steps.
    """

    epochs: int
    startup_s: float = 0.0
    name: str = ""


@dataclass(frozen=True)
class WholeJob:
    """Seconds of a whole job on one GPU, by what they are spent on.

    Attributes:
        epochs_s: in epochs; the only part that another GPU changes.
        stall_s: in stalls among the epochs, as the trace shows them.
        checkpoint_s: waiting for checkpoints, as the trace shows.
        startup_s: before the first epoch.
    """

    epochs_s: Estimate
    stall_s: float
    checkpoint_s: float
    startup_s: float

    @property
    def fixed_s(self) -> float:
        """What stays the same on every GPU [s]."""
        return self.stall_s + self.checkpoint_s + self.startup_s

    @property
    def seconds(self) -> Estimate:
        """All of it."""
        return self.epochs_s.plus(Estimate(self.fixed_s, self.fixed_s, self.fixed_s))


def whole_job(profile: Profile, prediction: Prediction, work: Work) -> WholeJob:
    """The job of ``profile`` on the prediction's GPU.

    Pauses take as long there as on the source: disks, networks and people do not get faster with the GPU.

    Raises:
        InputError: ``work.epochs`` is out of bounds, or no epochs were found.
    """
    job = estimate_job(profile, prediction, work.epochs)
    wait_s = work.epochs * min(profile.wait_share * (profile.epoch_s or 0.0), prediction.low or 0.0)
    fixed_s = job.stall_s + wait_s
    epochs_s = job.seconds.plus(Estimate(-fixed_s, -fixed_s, -fixed_s))
    return WholeJob(epochs_s, job.stall_s, wait_s, work.startup_s)


def plan_trial(profile: Profile, row: Placement, work: Work) -> tuple[int, float]:
    """A test run of the job on the instance of ``row``, where a prediction is not certain: epochs, and seconds with the start.

    Five epochs, a minute of them, or all of ``work``, whichever is less; the first one included.
    """
    prediction = row.prediction
    assert prediction.seconds is not None
    epochs = min(max(_RUN_EPOCHS, math.ceil(_RUN_S / prediction.seconds)), work.epochs)
    first_s = prediction.seconds if profile.first_epoch_s is None else profile.first_epoch_s * prediction.ratio
    return epochs, max(work.startup_s, _LAUNCH_S) + first_s + (epochs - 1) * prediction.seconds
