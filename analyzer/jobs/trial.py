"""A short run of the job elsewhere: what finding out costs, where a prediction is not certain."""

from __future__ import annotations

import math
from dataclasses import dataclass

from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.whole_job import Work
from epochcast.regressor import Profile

# Enough that the detector finds the epochs of the run (it takes 4.5 on average), and no less than a minute of them.
_RUN_EPOCHS = 5
_RUN_S = 60.0

# By choice: what launching an instance takes at least.
_LAUNCH_S = 300.0


@dataclass(frozen=True)
class Trial:
    """A few epochs (or steps) of the job on one instance, to see how long they take there.

    Attributes:
        epochs: how many, the first one included.
        seconds: with the start-up.
        usd: what it costs.
    """

    epochs: int
    seconds: float
    usd: float


def plan_trial(profile: Profile, row: Placement, work: Work) -> Trial:
    """Some epochs of ``work`` on the instance of ``row``: five, a minute of them, or all, whichever is less."""
    prediction = row.prediction
    assert prediction.seconds is not None
    epochs = min(max(_RUN_EPOCHS, math.ceil(_RUN_S / prediction.seconds)), work.epochs)
    first_s = prediction.seconds if profile.first_epoch_s is None else profile.first_epoch_s * prediction.ratio
    seconds = max(work.startup_s, _LAUNCH_S) + first_s + (epochs - 1) * prediction.seconds
    return Trial(epochs, seconds, seconds / 3600 * row.usd_per_hour)
