"""Steps on several GPUs, turning points and cost against hand computation; the memory of a step."""

from __future__ import annotations

import numpy as np
import pytest

from epochcast.analyzer.backends.convmeter import scaling
from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.scaling import KEPT, training_memory
from epochcast.analyzer.backends.distributed.communication.cluster import all_reduce_seconds, cluster_for

STEP = np.array([0.2, 0.16, 0.25])
DEVICES = np.array([1.0, 2, 4, 8, 16])


def test_a_step_on_several_gpus_has_the_hosts_share_and_what_the_backward_pass_does_not_hide() -> None:
    cluster, nbytes = cluster_for("A100 SXM4 80GB", 8), 25 * 2**20  # one bucket: nothing hides its reduction
    seconds, more = scaling.on_several(STEP, 0.1, nbytes, cluster, 8)
    assert more[0] == pytest.approx(0.2 * scaling.HOST_SHARE * 14 / 8 + all_reduce_seconds(cluster, nbytes, 8))
    assert seconds[0] == pytest.approx(0.2 + more[0])
    width = np.hypot(np.log(0.25 / 0.2), scaling.HALF_WIDTH)
    assert seconds[1:] == pytest.approx(seconds[0] * np.exp([-width, width]))
    assert more[1] == 0.0 and more[2] > more[0]


def test_a_network_between_nodes_widens_the_interval() -> None:
    inside, across = (scaling.on_several(STEP, 0.1, 4e9, cluster_for("A100 SXM4 80GB", 8, each), 8)[0] for each in (8, 4))
    assert across[0] > inside[0] and across[2] / across[0] > inside[2] / inside[0]


def test_beyond_the_turning_point_no_doubling_pays() -> None:
    rates = 10 * DEVICES / np.array([1, 1, 1.6, 3, 5.4])  # gains per doubling: 1, 0.25, 0.07, 0.11; both of the last two 0.09
    assert scaling.turning_point(DEVICES, rates) == 4
    assert scaling.turning_point(DEVICES, DEVICES) is None


def test_the_smallest_batch_near_the_highest_throughput() -> None:
    batch = np.array([1.0, 8, 64, 512])
    assert scaling.large_enough(batch, batch / (0.01 + 0.001 * batch)) == 512  # saturates at 1000 a second: 862 at 64
    assert scaling.large_enough(batch[:3], batch[:3] / np.array([0.01, 0.0101, 0.08])) == 8


GIB = 2.0**30
VALUES = dict.fromkeys(COLUMNS, 0.0) | {"weights": 1e6, "spatial_traffic": 3e6, "elementwise_traffic": 1e6}


def test_weights_gradients_and_moments_beside_what_the_batch_keeps() -> None:
    memory = training_memory(VALUES, 8, "fp32", None)
    assert memory is not None and memory.fits is None
    assert memory.low == 16e6 + KEPT[0] * 4 * 8 * 4e6 and memory.high == 16e6 + KEPT[1] * 4 * 8 * 4e6


@pytest.mark.parametrize(("batch", "fits"), [(8, True), (3000, None), (10_000, False)])
def test_the_verdict_is_open_where_the_range_meets_the_capacity(batch: int, fits: bool | None) -> None:
    memory = training_memory(VALUES, batch, "fp32", 16 * GIB)
    assert memory is not None and memory.capacity is not None and 14 * GIB < memory.capacity < 16 * GIB
    assert memory.capacity == 16 * GIB * 0.96 - 0.5 * GIB  # of pages that lie apart, and of the CUDA context
    assert memory.fits is fits
