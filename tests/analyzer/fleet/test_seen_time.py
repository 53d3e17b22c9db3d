"""The union of intervals, beside one that counts every second."""

from hypothesis import given
from hypothesis import strategies as st

from epochcast.analyzer.fleet.gpu_tally import SeenTime

seconds = st.integers(0, 60)


@given(st.lists(st.tuples(seconds, seconds), max_size=30))
def test_each_second_counts_once(intervals: list[tuple[int, int]]) -> None:
    seen = SeenTime()
    for start, end in intervals:
        seen.add(start, end)
    assert seen.seconds == len({second for start, end in intervals for second in range(start, end)})


def test_what_touches_is_one_interval() -> None:
    seen = SeenTime()
    for start, end in [(0, 10), (20, 30), (10, 20), (5, 6)]:
        seen.add(start, end)
    assert seen.seconds == 30
