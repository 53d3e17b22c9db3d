"""When the device works, by the tracker's rule: where the present job begins, and the rest that parts it from the next.

Rest is counted in samples, and next to its like, as in the tracker's grid: readings every 30 s are treated as those at 10 Hz.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from epochcast.detector.filters import running_mean
from epochcast.detector.methods.track.grid import (
    BUSY_PART,
    BUSY_SAMPLES,
    BUSY_SHARE,
    IDLE,
    PAUSE_RANK,
    PAUSE_RATIO,
    PAUSE_SHARE,
    RATIOS,
    busy_stretches,
)
from epochcast.detector.signals import Signals
from epochcast.detector.stream.pyramid import FACTOR, Pyramid

#: The tracker sees what comes after a rest, and parts at a fifth of the shorter side; a stream must decide when work begins
#: again. It parts at a fifth of what came before, in these bounds: 15 s and ten minutes at 10 Hz.
PAUSE_LEAST, PAUSE_MOST = 150, 6000

#: A hole in the telemetry after which nothing is known of what came before: an agent, a network or a database that fails does
#: so for seconds, however often it is read; and so many samples, for what is read less often than every 3 s.
HOLE_S, HOLE_SAMPLES = 300.0, 100

#: A job whose ratio reaches this share of the threshold of the one before is at work, too: 12 % of what that one did, as in
#: ../shared/research/detector.md, 4.
WEAKER = 0.4

#: After so many samples of rest the job may have ended, 5 s at 10 Hz.
RESTING = 50


def hole_s(step_s: float) -> float:
    """Seconds without a sample after which nothing is known of what came before."""
    return max(HOLE_S, HOLE_SAMPLES * step_s)


def watched(samples: int) -> int:
    """Samples to average so that the mean shows work, out of `samples`: as many as the tracker takes."""
    return max(1, min(BUSY_SAMPLES, round(BUSY_PART * samples)))


def parting(before: int, pauses: Sequence[int]) -> float:
    """Samples of rest that part a job of `before` samples, with some pauses, from the next one."""
    return max(float(np.clip(PAUSE_SHARE * before, PAUSE_LEAST, PAUSE_MOST)), usual(pauses))


def usual(pauses: Sequence[int]) -> float:
    """Samples of rest that are nothing new to a job with such pauses; 0 without any."""
    return PAUSE_RATIO * sorted(pauses)[-min(PAUSE_RANK, len(pauses))] if pauses else 0.0


class StreamActivity:
    """Work and rest of a stream's device so far.

    Attributes:
        start: sample at which the present job begins, or later where its beginning turned out to be another's.
        begun: sample at which its work began.
        busy_until: sample until which the device worked.
        threshold: of the main metric's mean while it works; 0 before any work.
    """

    def __init__(self, metrics: Sequence[str], pyramid: Pyramid) -> None:
        self.start = self.begun = self.busy_until = 0
        self.threshold = 0.0
        self._metrics, self._pyramid = metrics, pyramid
        self._main = metrics[0]
        self._pauses: list[int] = []  # the longest rests of the device, whether they parted jobs or not: what recurs does not

    @property
    def idle(self) -> int:
        """Samples of rest until now."""
        return self._pyramid.count - self.busy_until

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
        return self._main in RATIOS

    def settle(self) -> bool:
        """What working means, when the job's work began, and until when it lasted; whether there was long rest before it."""
        level = max(1, self._pyramid.finest(self.start))
        first, bins = self._pyramid.window(level, self.start)
        read = {
            name: np.nan_to_num(row.astype(np.float64))
            for name, row in zip(self._metrics, bins[0], strict=True)
            if not np.isnan(row).all()
        }
        if not read or bins.shape[2] < 2:
            return False
        self._main = Signals(np.empty(0), read, {}).main()
        activity = read[self._main]
        mean = running_mean(activity, watched(activity.size))
        floor = 0.0 if self._is_ratio else float(mean.min())
        above = np.flatnonzero(mean > floor + BUSY_SHARE * (float(mean.max()) - floor))
        if not above.size:
            return False
        # Rest before all work is left out: of a job that has only just begun, the tracker's percentile would see rest alone.
        begin = min(int(above[0]), activity.size - 2)
        rest = activity[begin:]
        stretches = busy_stretches(Signals(np.arange(float(rest.size)), {self._main: rest}, {}))
        self.threshold = floor + BUSY_SHARE * (float(np.percentile(mean[begin:], 90)) - floor)
        self.begun = first + FACTOR**level * (begin + min(stretches)[0])
        self.busy_until = max(self.busy_until, first + FACTOR**level * (begin + max(stretches)[1] + 1))
        return self.begun - self.start > PAUSE_LEAST

    def watch(self, rests: float) -> Literal["another", "idle", "rested", "no change"]:
        """Whether the device works again.

        Args:
            rests: samples that an epoch of the job may rest.

        Returns:
            `another` job, after a rest that parts it from the one before; else the same, after the device was `idle` or had
            `rested` for less; `no change` if it still works, or rests.
        """
        now = self._pyramid.count
        width = FACTOR * max(1, watched(now - self.start) // FACTOR)
        if now % width:
            return "no change"
        _, bins = self._pyramid.window(1, now - width)
        idle = self.idle
        weaker = idle > self.idle_after and self._is_ratio
        if not np.nan_to_num(bins[0, self._metrics.index(self._main)]).mean() > self.threshold * (WEAKER if weaker else 1):
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
