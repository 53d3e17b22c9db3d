"""The smallest batch within 5 % of the best, and which batches a memory holds."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.question import LARGEST, batches_that_fit, best_batch


@example([0.5, 0.992, 1.0])
@example([0.5, 0.988, 1.0])
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=13))
def test_the_smallest_batch_within_five_per_cent_by_looking_at_each(occupancies: list[float]) -> None:
    batches = [2**power for power in range(len(occupancies))]
    best = best_batch("T4", np.array(batches), np.array(occupancies))
    assert best.highest == max(occupancies) and best.largest == batches[-1]
    assert best.highest_at == batches[occupancies.index(max(occupancies))]
    for batch, occupancy in zip(batches, occupancies, strict=True):
        if occupancy >= 0.95 * max(occupancies):
            assert best.smallest == batch
            break


@given(st.floats(0, 100), st.floats(0.1, 10), st.floats(0, 1e5))
def test_batches_are_the_powers_of_two_that_fit(fixed: float, each: float, capacity: float) -> None:
    batches = batches_that_fit(lambda batch: fixed + each * batch, capacity)
    assert batches == [2**power for power in range(13) if fixed + each * 2**power <= capacity]
    assert not batches or batches[-1] <= LARGEST == 4096
