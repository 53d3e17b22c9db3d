"""The memory of a training step as a range: its sums, its verdict, and that torch keeps what it says."""

from __future__ import annotations

import pytest

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.scaling import KEPT, training_memory

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
