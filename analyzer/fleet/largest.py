"""The few largest of many things that come by one at a time."""

from __future__ import annotations

import heapq
from typing import Any


class Largest:
    """Keeps ``most`` rows of the largest value; what they were among is counted.

    Attributes:
        seen: how many came by.
    """

    def __init__(self, most: int) -> None:
        """Begin with none."""
        self.seen = 0
        self._most = most
        self._heap: list[tuple[float, _Backwards, int, dict[str, Any]]] = []

    def add(self, value: float, name: str, row: dict[str, Any]) -> None:
        """Let one come by; of equal values the first by ``name`` counts, and of equal names the one that came first."""
        self.seen += 1
        entry = (value, _Backwards(name), -self.seen, row)
        if len(self._heap) < self._most:
            heapq.heappush(self._heap, entry)
        else:
            heapq.heappushpop(self._heap, entry)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows kept, the largest first."""
        return [row for *_, row in sorted(self._heap, key=lambda entry: entry[:3], reverse=True)]


class _Backwards(str):
    """A text that is smaller the later it comes."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str(self) > str(other)
