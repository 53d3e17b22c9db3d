"""The time in which anything was seen: the union of many intervals that mostly overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class SeenTime:
    """Grows by intervals; what overlaps is one, so that a fleet's ten thousand of one night are held as one."""

    def __init__(self) -> None:
        self._starts: list[float] = []
        self._ends: list[float] = []

    def add(self, start: float, end: float) -> None:
        """Take in an interval [s]; nothing where it has no length."""
        if end <= start:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [start], [end]

    @property
    def seconds(self) -> float:
        """Length of all together."""
        return sum(end - start for start, end in zip(self._starts, self._ends, strict=True))
