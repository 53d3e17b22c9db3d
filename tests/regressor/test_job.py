"""A whole job: first epoch, the others, stalls."""

from collections.abc import Callable

import pytest

from epochcast.regressor import InputError, Prediction, Profile
from epochcast.regressor.job import MOST_EPOCHS, estimate_job

Make = Callable[..., Profile]

HALF = Prediction("A10G", 0.5, 5.0, 4.0, 6.0, "test", 0.4, 0.6, "ensemble", 1.0, ())


def test_first_epoch_in_proportion_and_stalls_as_long_as_they_were(make_profile: Make) -> None:
    # 5 epochs and one stall of 12 s above: 2 s per epoch.
    profile = make_profile(first_epoch_s=14.0, stalls=1, stall_s=12.0)
    job = estimate_job(profile, HALF, 11)
    assert job.first_epoch_s == 7.0 and job.stall_s == pytest.approx(20.0)
    assert job.seconds.value == pytest.approx(7 + 10 * 5 + 20)
    assert job.seconds.low == pytest.approx(14 * 0.4 + 10 * 4 + 20)
    assert job.seconds.high == pytest.approx(14 * 0.6 + 10 * 6 + 20)


def test_without_a_first_epoch_told_apart_all_are_alike(make_profile: Make) -> None:
    job = estimate_job(make_profile(), HALF, 10)
    assert (job.seconds.value, job.seconds.low, job.seconds.high) == pytest.approx((50.0, 40.0, 60.0))
    assert job.first_epoch_s is None and job.stall_s == 0


@pytest.mark.parametrize("epochs", [0, -1, MOST_EPOCHS + 1, 10**400])
def test_epochs_out_of_bounds(make_profile: Make, epochs: int) -> None:
    with pytest.raises(InputError, match="--epochs is"):
        estimate_job(make_profile(), HALF, epochs)


def test_a_ratio_alone_gives_no_job(make_profile: Make) -> None:
    alone = Prediction("A10G", 0.5, None, None, None, "test", 0.4, 0.6, "ensemble", 1.0, ())
    with pytest.raises(InputError, match="there are only ratios"):
        estimate_job(make_profile(epoch_s=None), alone, 3)
