"""When the device of a stream works: where the present job begins, and whether a pause parts it from the next."""

from typing import Literal

import numpy as np

from ..methods.track.grid import BUSY_SHARE, IDLE, PAUSE_RANK, RATIOS
from .heard import Heard
from .pyramid import FACTOR
from .work import PAUSE_LEAST, PAUSE_MOST, WEAKER, main_metric, parting, usual, watched, work_in

#: After so many samples of rest the job may have ended, 5 s at 10 Hz. By choice, set by hand;
#: benchmarks/detector/streaming.py measures what it brings with the others.
RESTING = 50


class Activity:
    """Work and rest so far.

    Attributes:
        start: sample at which the present job begins, or later where its beginning turned out to be another's.
        begun: sample at which its work began.
        busy_until: sample until which the device worked.
        threshold: of the main metric's mean while it works; 0 before any work.
    """

    def __init__(self, heard: Heard) -> None:
        self.start = self.begun = self.busy_until = 0
        self.threshold = 0.0
        self._heard = heard
        self._main = 0
        self._pauses: list[int] = []  # the longest rests of the device, whether they parted jobs or not: what recurs does not

    @property
    def idle(self) -> int:
        """Samples of rest until now."""
        return self._heard.now - self.busy_until

    @property
    def rest_after(self) -> float:
        """Samples of rest after which the job may have ended."""
        return max(RESTING, usual(self._pauses))

    @property
    def idle_after(self) -> float:
        """Samples of rest after which the device is idle."""
        return max(PAUSE_LEAST, usual(self._pauses))

    @property
    def seen(self) -> bool:
        """Whether there was work, and more than the blinking of a device that nobody uses."""
        return self.threshold != 0 and not (self._is_ratio and self.threshold < BUSY_SHARE * IDLE)

    @property
    def _is_ratio(self) -> bool:
        return self._heard.metrics[self._main] in RATIOS

    def settle(self) -> bool:
        """What working means, when the job's work began, and until when it lasted; whether there was long rest before it."""
        pyramid = self._heard.pyramid
        level = max(1, pyramid.finest(self.start))
        first, bins = pyramid.window(level, self.start)
        self._main = main_metric(self._heard.metrics, bins[0])
        work = work_in(np.nan_to_num(bins[0, self._main].astype(np.float64)), self._heard.metrics[self._main])
        if work is None:
            return False
        self.begun = first + FACTOR**level * work.begin
        self.threshold = work.threshold
        self.busy_until = max(self.busy_until, first + FACTOR**level * work.end)
        return self.begun - self.start > PAUSE_LEAST

    def watch(self, rests: float) -> Literal["another", "idle", "rested", "no change"]:
        """Whether the device works again.

        Args:
            rests: samples that an epoch of the job may rest.

        Returns:
            `another` job, after a rest that parts it from the one before; else the same, after the device was `idle` or had
            `rested` for less; `no change` if it still works, or rests.
        """
        now = self._heard.now
        width = FACTOR * max(1, watched(now - self.start) // FACTOR)
        if now % width:
            return "no change"
        _, bins = self._heard.pyramid.window(1, now - width)
        idle = self.idle
        weaker = idle > self.idle_after and self._is_ratio
        if not np.nan_to_num(bins[0, self._main]).mean() > self.threshold * (WEAKER if weaker else 1):
            return "no change"
        pause, parts = idle - width, max(parting(self.busy_until - self.start, self._pauses), rests)
        if 0 < pause <= PAUSE_MOST:
            self._pauses = sorted([*self._pauses, idle])[-PAUSE_RANK:]
        if pause > parts:
            self.start = self.busy_until
            self.settle()
            self.start = self.begun
        self.busy_until = now
        if pause > parts:
            return "another"
        if pause > 0:
            return "idle" if idle > self.idle_after else "rested"
        return "no change"
