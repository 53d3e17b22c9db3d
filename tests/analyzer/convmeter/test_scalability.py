"""Throughput, epochs and turning points against hand computation."""

from __future__ import annotations

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.scalability import (
    ScalingCurve,
    cost_points,
    points_of,
    split_equally,
)

METRICS = pd.DataFrame({"network": ["net"], "block": [""], "image_size": [64], "flops": [1e6]})


def scaling(devices: list[float], seconds: list[float], batch: float = 10) -> ScalingCurve:
    return ScalingCurve(np.full(len(devices), batch), np.array(devices), np.array(seconds))


def test_strong_scaling_keeps_the_images_of_a_step() -> None:
    points = points_of(METRICS, split_equally(96, [1, 3, 4]), [1, 3, 4], None)
    assert points[["batch", "devices", "nodes"]].to_numpy().tolist() == [[96, 1, 1], [32, 3, 1], [24, 4, 1]]


def test_beyond_the_turning_point_no_doubling_pays() -> None:
    one = scaling([1, 2, 4, 8, 16], [1, 1, 1.6, 3, 5.4])  # gains per doubling: 1, 0.25, 0.07, 0.11; both of the last two 0.09
    assert one.turning_point == 4
    assert one.fastest == 16  # slower doublings still add a little


def test_the_smallest_batch_near_the_highest_throughput() -> None:
    batch = np.array([1.0, 8, 64, 512])
    seconds = 0.01 + 0.001 * batch  # saturates at 1000 images a second: 862 at 64, 981 at 512
    assert ScalingCurve(batch, np.ones(4), seconds).large_enough == 512
    assert ScalingCurve(batch[:3], np.ones(3), np.array([0.01, 0.0101, 0.08])).large_enough == 8


def test_cost_points_by_hand() -> None:
    devices, seconds, usd = np.array([1.0, 2, 4, 8]), np.array([100.0, 55, 40, 45]), np.array([1.0, 1.1, 1.6, 3.6])
    points = cost_points(devices, seconds, usd)
    assert points is not None
    assert (points.cheapest, points.knee) == (1, 2)
