"""A source without a GPU behind it, for tests that say themselves what is read."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from epochcast.agent.sources import Device, Row


class StubSource:
    """Ten regular readings a second of nothing; a test's own source says what differs."""

    hertz, interval, rows_per_interval, regular, lag, silent_after = 10.0, 0.1, 1, True, 0.0, 1.0
    recorded_rows, finished, outdated, unanswering = None, False, False, 0

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        self.name = name
        self.devices = tuple(devices)
        self.blanks: Counter[tuple[int, str]] = Counter()
        self.ready_at = 0.0
        self.closed = False

    def read(self, tick: Any) -> Sequence[Row]:
        return []

    def close(self) -> None:
        self.closed = True
