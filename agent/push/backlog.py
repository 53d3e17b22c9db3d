"""Encoded requests that wait for the store."""

import threading
from collections import deque
from typing import NamedTuple


class Batch(NamedTuple):
    """A compressed write request and the number of samples in it."""

    body: bytes
    samples: int


class Backlog:
    """A queue of batches, oldest first, that holds at most ``capacity`` samples; beyond that the oldest are dropped.

    A batch on its way counts as held until the store has answered. No batch may hold more than half of the capacity, so there
    is always room for the newest one next to the one on its way. ``dropped``: samples that had to make room.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.dropped = 0
        self._batches = deque[Batch]()
        self._samples = 0
        self._closed = False
        self._changed = threading.Condition()

    @property
    def samples(self) -> int:
        """Samples held."""
        return self._samples

    def put(self, batch: Batch) -> None:
        """Add the newest batch."""
        with self._changed:
            self._batches.append(batch)
            self._samples += batch.samples
            while self._samples > self.capacity and self._batches:
                oldest = self._batches.popleft()
                self._samples -= oldest.samples
                self.dropped += oldest.samples
            self._changed.notify()

    def take(self) -> Batch | None:
        """Return the oldest batch for sending, waiting for one; None once the queue is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._closed)
            return self._batches.popleft() if self._batches else None

    def give_back(self, batch: Batch) -> None:
        """Return a batch that could not be sent: it is the oldest again, and the first to make room."""
        with self._changed:
            self._batches.appendleft(batch)

    def settle(self, batch: Batch) -> None:
        """Forget a batch that the store has answered."""
        with self._changed:
            self._samples -= batch.samples

    def take_over(self, old: "Backlog") -> None:
        """Go on with what waited in a queue that is closed. What is still on its way there is given up, and counted so."""
        with old._changed:
            batches, old._batches = old._batches, deque()
            self.dropped = old.dropped + old._samples - sum(batch.samples for batch in batches)
        for batch in batches:
            self.put(batch)

    def close(self) -> None:
        """Say that no more batches will come."""
        with self._changed:
            self._closed = True
            self._changed.notify()
