"""The overhead governor: where readings take more CPU time than they may, fewer are made."""

import logging
import math
from collections import deque

log = logging.getLogger(__name__)

# 10 Hz steps down to 5, 2 and 1 Hz: each divides the second, so that slower ticks lie on the same grid.
DIVISORS = (1, 2, 5, 10)
# Ticks that a judgement rests on, and the place among them, sorted by cost, of the one that is judged: one slow tick in ten,
# which reads more, does not count.
JUDGED_TICKS = 20
JUDGED_RANK = 14
# Seconds to stay at a rate before a faster one is tried; they double each time that it did not last.
FIRST_HOLD_S = 30.0
LONGEST_HOLD_S = 600.0
# A faster rate is tried only when it would cost this share of the budget at most.
MARGIN = 0.8


class Governor:
    """Decides which ticks of a grid of ``hertz`` are taken.

    ``budget``: CPU seconds that a tick at full rate may take, so ``budget · hertz`` is the share of a core that may be spent
    reading; a slower rate may cost as much in all. ``divisor``: each how many-th tick is taken now.
    """

    def __init__(self, hertz: float, budget: float) -> None:
        self._hertz = hertz
        self._share = budget * hertz
        # Nothing below 1 Hz: the slow tier is due once a second.
        self._divisors = [divisor for divisor in DIVISORS if hertz / divisor >= 1]
        self._level = 0
        self._costs = deque[float](maxlen=JUDGED_TICKS)
        self._held_since = -math.inf
        self._tried_faster = False
        self._hold = FIRST_HOLD_S

    @property
    def divisor(self) -> int:
        """Each how many-th tick is taken."""
        return self._divisors[self._level]

    @property
    def hertz(self) -> float:
        """Ticks per second that are taken."""
        return self._hertz / self.divisor

    def record(self, seconds: float, now: float) -> None:
        """Take in what the tick at ``now`` (monotonic) cost in CPU seconds, and judge."""
        self._costs.append(seconds)
        # At full rate only a tick beyond the budget gives reason to look.
        if len(self._costs) < JUDGED_TICKS or (self._level == 0 and seconds * self._hertz <= self._share):
            return
        cost = sorted(self._costs)[JUDGED_RANK]
        if cost * self.hertz > self._share and self._level + 1 < len(self._divisors):
            if self._tried_faster and now - self._held_since < 2 * self._hold:
                self._hold = min(2 * self._hold, LONGEST_HOLD_S)
            self._step(+1, cost, now)
        elif self._level and now - self._held_since >= self._hold:
            faster = self._hertz / self._divisors[self._level - 1]
            if cost * faster <= MARGIN * self._share:
                self._step(-1, cost, now)

    def _step(self, change: int, cost: float, now: float) -> None:
        before = self.hertz
        self._level += change
        self._held_since = now
        self._tried_faster = change < 0
        self._costs.clear()
        log.warning(
            "a tick's readings take %.1f ms of CPU (budget %.1f ms at %g Hz): sampling at %g Hz instead of %g Hz",
            1e3 * cost,
            1e3 * self._share / self._hertz,
            self._hertz,
            self.hertz,
            before,
        )
