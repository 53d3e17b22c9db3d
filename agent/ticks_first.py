"""Ticks first: whoever serves HTTP waits while a sampler reads.

All threads share one interpreter. A sampler gives it away at each driver call, dozens of times per tick, and a thread that puts
an answer together then keeps it for a whole switch interval (`sys.setswitchinterval`): a tick of 1 ms took 10 ms, and the
governor blamed the driver. So the answers pause instead; a tick is short.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

# Nobody waits longer for a tick (seconds): it may hang in the driver.
LONGEST_WAIT_S = 0.05


class TicksFirst:
    """Samplers enter it (``with``) for the time of a tick."""

    def __init__(self) -> None:
        self._idle = threading.Event()
        self._idle.set()
        self._reading = 0
        self._began = 0.0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._reading += 1
            self._began = time.monotonic()
            self._idle.clear()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._reading -= 1
            if not self._reading:
                self._idle.set()

    def wait(self) -> None:
        """Return when no tick is being read, or when the newest one has taken too long."""
        if not self._idle.is_set():
            self._idle.wait(max(0.0, self._began + LONGEST_WAIT_S - time.monotonic()))

    def between(self, pieces: Iterable[T]) -> Iterator[T]:
        """Yield each of what is made piece by piece, starting none while a tick is being read."""
        self.wait()
        for piece in pieces:
            yield piece
            self.wait()


# One for the process, as is the interpreter.
ticks_first = TicksFirst()
