"""Ticks first: the HTTP server waits while a sampler reads.

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
# Between two looks at whether a tick is over (seconds); most are over before the second one.
PAUSE_S = 0.0005


class TicksFirst:
    """Samplers enter it (``with``) for the time of a tick."""

    def __init__(self) -> None:
        # Since when (monotonic) each thread reads a tick. Not an Event: a tick is too short to be worth waking somebody for.
        self._reading: dict[int, float] = {}

    def __enter__(self) -> None:
        self._reading[threading.get_ident()] = time.monotonic()

    def __exit__(self, *_: object) -> None:
        del self._reading[threading.get_ident()]

    def wait(self) -> None:
        """Return when no tick is being read, or only such as have taken too long."""
        while self._reading and any(time.monotonic() - began < LONGEST_WAIT_S for began in tuple(self._reading.values())):
            time.sleep(PAUSE_S)

    def between(self, pieces: Iterable[T]) -> Iterator[T]:
        """Yield each of what is made piece by piece, starting none while a tick is being read."""
        self.wait()
        for piece in pieces:
            yield piece
            self.wait()


# One for the process, as is the interpreter.
ticks_first = TicksFirst()
