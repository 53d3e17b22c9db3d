"""A whole job on another GPU: its first epoch, the others, and the stalls among them."""

from dataclasses import dataclass

from epochcast.regressor.errors import InputError
from epochcast.regressor.prediction import Estimate, Prediction
from epochcast.regressor.profile import Profile

# By choice; what is beyond is a slip.
MOST_EPOCHS = 10**9


@dataclass(frozen=True)
class JobTime:
    """Seconds of a whole job on one GPU.

    Attributes:
        epochs: how many epochs (or steps) it has.
        seconds: of all of it.
        first_epoch_s: seconds of the first epoch in it; None where it was not measured apart.
        stall_s: seconds of stalls in it.
    """

    epochs: int
    seconds: Estimate
    first_epoch_s: float | None
    stall_s: float


def estimate_job(profile: Profile, prediction: Prediction, epochs: int) -> JobTime:
    """Add up a job of ``epochs`` epochs (or steps, by the profile's unit) on the prediction's GPU.

    The first epoch takes longer by what it took longer on the source, in proportion. Stalls come as often as in the profile and
    last as long: they wait for disks, networks and hosts, which another GPU does not change.

    Raises:
        InputError: ``epochs`` is out of bounds, or the profile has no epoch seconds.
    """
    if not 1 <= epochs <= MOST_EPOCHS:
        raise InputError(f"--epochs is {str(epochs)[:20]}; give 1 to {MOST_EPOCHS}")
    if prediction.seconds is None or prediction.low is None or prediction.high is None:
        raise InputError("no epochs were found, so there are only ratios: --epochs needs seconds; record a trace with epochs")
    epoch = Estimate(prediction.seconds, prediction.low, prediction.high)
    first_s = profile.first_epoch_s
    ratio = Estimate(prediction.ratio, prediction.ratio_low, prediction.ratio_high)
    first = epoch if first_s is None else ratio.times(first_s)
    stall_s = (epochs - 1) * profile.stall_s / max(profile.epochs + profile.stalls, 1)
    seconds = first.plus(epoch.times(epochs - 1)).plus(Estimate(stall_s, stall_s, stall_s))
    return JobTime(epochs, seconds, None if first_s is None else first.value, stall_s)
