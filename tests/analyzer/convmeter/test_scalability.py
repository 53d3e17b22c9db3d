"""Throughput, epochs and turning points against hand computation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from epochcast.analyzer.backends.convmeter.scalability import (
    ScalingCurve,
    cost_points,
    strong_scaling,
    weak_scaling,
)
from epochcast.analyzer.errors import InputError

METRICS = pd.DataFrame({"network": ["net"], "block": [""], "image_size": [64], "flops": [1e6]})


def scaling(devices: list[float], seconds: list[float], batch: float = 10) -> ScalingCurve:
    return ScalingCurve(np.full(len(devices), batch), np.array(devices), np.array(seconds))


def test_weak_scaling_keeps_the_batch_of_each_device() -> None:
    points = weak_scaling(METRICS, 32, [8, 1, 2, 8], 4)
    assert points[["batch", "devices", "nodes"]].to_numpy().tolist() == [[32, 1, 1], [32, 2, 1], [32, 8, 2]]
    assert (points["flops"] == 1e6).all() and list(points.index) == [0, 1, 2]


def test_strong_scaling_keeps_the_images_of_a_step() -> None:
    points = strong_scaling(METRICS, 96, [1, 3, 5 - 1], None)
    assert points[["batch", "devices", "nodes"]].to_numpy().tolist() == [[96, 1, 1], [32, 3, 1], [24, 4, 1]]


def test_strong_scaling_refuses_what_cannot_be_shared() -> None:
    with pytest.raises(InputError, match=r"^a global batch of 96 cannot be split equally over 5 devices; give a multiple"):
        strong_scaling(METRICS, 96, [1, 5, 7], None)


def test_an_epoch_is_the_papers_formula() -> None:
    one = scaling([1, 4], [0.5, 0.8])
    assert one.epoch_seconds(1000) == pytest.approx([1000 / (10 * 1) * 0.5, 1000 / (10 * 4) * 0.8])
    assert one.images_per_second == pytest.approx([20, 50])
    assert one.speed_up == pytest.approx([1, 2.5]) and one.efficiency == pytest.approx([1, 2.5 / 4])
    later = scaling([2, 4], [0.5, 0.8])  # relative to the fewest
    assert later.speed_up == pytest.approx([1, 1.25]) and later.efficiency == pytest.approx([1, 1.25 / 2])


def test_beyond_the_turning_point_no_doubling_pays() -> None:
    one = scaling([1, 2, 4, 8, 16], [1, 1, 1.6, 3, 5.4])  # gains per doubling: 1, 0.25, 0.07, 0.11; both of the last two 0.09
    assert one.turning_point == 4
    assert one.fastest == 16  # slower doublings still add a little


def test_a_poor_step_is_passed_where_one_beyond_it_pays() -> None:
    assert scaling([1, 2, 4], [1, 1.9, 2.4]).turning_point is None  # 1.05, then 1.67 of the first: 0.29 per doubling
    assert scaling([1, 2, 4], [1, 1.9, 3.9]).turning_point == 1


def test_counts_between_doublings_need_the_gain_in_proportion() -> None:
    needed = 1.1 ** np.log2(1.5)
    assert scaling([2, 3], [1, 1.5 / (needed - 0.001)]).turning_point == 2
    assert scaling([2, 3], [1, 1.5 / (needed + 0.001)]).turning_point is None


def test_no_turning_point_where_all_counts_pay_or_there_is_one() -> None:
    assert scaling([1, 2, 4], [1, 1, 1]).turning_point is None
    assert scaling([4], [1]).turning_point is None


def test_the_smallest_batch_near_the_highest_throughput() -> None:
    batch = np.array([1.0, 8, 64, 512])
    seconds = 0.01 + 0.001 * batch  # saturates at 1000 images a second: 862 at 64, 981 at 512
    assert ScalingCurve(batch, np.ones(4), seconds).large_enough == 512
    assert ScalingCurve(batch[:3], np.ones(3), np.array([0.01, 0.0101, 0.08])).large_enough == 8


def test_cost_points_by_hand() -> None:
    devices, seconds, usd = np.array([1.0, 2, 4, 8]), np.array([100.0, 55, 40, 45]), np.array([1.0, 1.1, 1.6, 3.6])
    points = cost_points(devices, seconds, usd)
    assert points is not None
    assert (points.cheapest, points.knee, points.front) == (1, 2, (1, 2, 4))


def test_cost_points_leave_out_what_has_no_price() -> None:
    points = cost_points(np.array([1.0, 2]), np.array([9.0, 5]), np.array([np.nan, 2]))
    assert points is not None and points.cheapest == 2
    assert cost_points(np.array([1.0]), np.array([9.0]), np.array([np.nan])) is None
