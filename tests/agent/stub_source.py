"""A source without a GPU behind it, for tests that say themselves what is read."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from epochcast.agent.sources import Device, Row, Source


class StubSource(Source):
    """Ten regular readings a second of nothing; a test's own source says what differs."""

    silent_after = 1.0

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        self.name = name
        self.devices = tuple(devices)
        self.blanks: Counter[tuple[int, str]] = Counter()
        self.xids: list[tuple[int, int]] = []
        self.closed = False

    def read(self, tick: Any) -> Sequence[Row]:
        return []

    def take_xids(self) -> Sequence[tuple[int, int]]:
        reported, self.xids = self.xids, []
        return reported

    def close(self) -> None:
        self.closed = True
