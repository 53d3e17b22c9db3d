"""The few largest of many things that come by one at a time."""

from __future__ import annotations

from bisect import insort
from operator import itemgetter
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
        self._held: list[tuple[float, str, int, dict[str, Any]]] = []  # the largest first

    def add(self, value: float, name: str, row: dict[str, Any]) -> None:
        """Let one come by; of equal values the first by ``name`` counts, and of equal names the one that came first."""
        self.seen += 1
        insort(self._held, (-value, name, self.seen, row), key=itemgetter(0, 1, 2))
        del self._held[self._most :]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows kept, the largest first."""
        return [row for *_, row in self._held]
