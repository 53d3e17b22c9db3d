"""What a whole job takes on one GPU, with everything that an hour of the instance is paid for."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.analyzer.errors import InputError
from epochcast.regressor import Prediction, Profile
from epochcast.regressor.job import estimate_job
from epochcast.regressor.prediction import Estimate


@dataclass(frozen=True)
class Work:
    """What is still to be done, as the user knows it.

    Attributes:
        epochs: epochs (or steps, by the profile's unit) that remain.
        idle_share: share of the job's time on the source in which it waits outside its epochs (staging, queues, people).
        checkpoint_share: share of it in which it writes checkpoints outside its epochs; those within show in the trace.
        startup_s: seconds from the order of an instance to the first epoch (boot, image, data); paid for, and the same
            everywhere.
        name: what it is, for people; empty: so many epochs, cycles or steps.

    Raises:
        InputError: a share or a duration is out of bounds.
    """

    epochs: int
    idle_share: float = 0.0
    checkpoint_share: float = 0.0
    startup_s: float = 0.0
    name: str = ""

    def __post_init__(self) -> None:
        for what, share in (("idle", self.idle_share), ("checkpoint", self.checkpoint_share)):
            if not 0 <= share < 1:
                raise InputError(f"the {what} share is {share}; it is a share of the job's time, from 0 to below 1")
        if not self.idle_share + self.checkpoint_share < 1:
            raise InputError(
                f"an idle share of {self.idle_share} and a checkpoint share of {self.checkpoint_share} leave no time for "
                "the epochs; together they must be below 1"
            )
        if not 0 <= self.startup_s < 1e9:
            raise InputError(f"the startup takes {self.startup_s / 60:g} minutes; give 0 or more")


@dataclass(frozen=True)
class WholeJob:
    """Seconds of a whole job on one GPU, by what they are spent on.

    Attributes:
        epochs_s: in epochs; the only part that another GPU changes.
        stall_s: in stalls among the epochs, as the trace shows them.
        idle_s: outside the epochs, as `Work` says.
        checkpoint_s: waiting for checkpoints, outside the epochs as `Work` says, and within them as the trace shows.
        startup_s: before the first epoch.
    """

    epochs_s: Estimate
    stall_s: float
    idle_s: float
    checkpoint_s: float
    startup_s: float

    @property
    def fixed_s(self) -> float:
        """What stays the same on every GPU [s]."""
        return self.stall_s + self.idle_s + self.checkpoint_s + self.startup_s

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
    # Of the epochs on the source, from those here.
    on_source = (epochs_s.value + wait_s) / prediction.ratio + job.stall_s
    pause_s = on_source / (1 - work.idle_share - work.checkpoint_share)
    checkpoint_s = wait_s + pause_s * work.checkpoint_share
    return WholeJob(epochs_s, job.stall_s, pause_s * work.idle_share, checkpoint_s, work.startup_s)
