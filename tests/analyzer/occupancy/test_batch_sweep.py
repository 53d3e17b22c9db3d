"""The smallest batch within 5 % of the best."""

from hypothesis import example, given
from hypothesis import strategies as st

from epochcast.analyzer.backends.occupancy.answer import Estimate, Filled
from epochcast.analyzer.backends.occupancy.question import best_batch


def filled(batch: int, occupancy: float) -> Filled:
    estimate = Estimate(value=occupancy, low=0.0, high=1.0, basis="modelled")
    labels = {"sm_occupancy": estimate, "sm_active": estimate, "peak_memory": estimate}
    return Filled(gpu="T4", batch=batch, **labels, out_of_memory=None, fits=True)


@example([0.5, 0.992, 1.0])
@example([0.5, 0.988, 1.0])
@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=13))
def test_the_smallest_batch_within_five_per_cent_by_looking_at_each(occupancies: list[float]) -> None:
    batches = [2**power for power in range(len(occupancies))]
    best = best_batch([filled(*row) for row in zip(batches, occupancies, strict=True)])
    assert best.highest == max(occupancies) and best.largest == batches[-1]
    assert best.highest_at == batches[occupancies.index(max(occupancies))]
    assert best.smallest == next(b for b, o in zip(batches, occupancies, strict=True) if o >= 0.95 * max(occupancies))
