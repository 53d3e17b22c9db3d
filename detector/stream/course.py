"""The boundaries of an answer: those that a search found, and the next ones as they come."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..epochs import Detection, Epoch, Job
from ..methods.track.boundaries import EVEN
from ..methods.track.cycle import FEWEST_READINGS
from .boundaries import Boundaries
from .follower import Follower
from .heard import Heard
from .search import Search, close
from .work import Activity

Array = NDArray[np.float64]

#: So many intervals in a row unlike the period (EVEN) are those of another job. By choice, set by hand;
#: benchmarks/detector/streaming.py measures what it brings with the others.
UNLIKE = 3


class Course:
    """Boundaries, and what follows them.

    Attributes:
        boundaries: so far.
        period: samples; NaN before any answer.
        follower: finds the next boundaries; None without an answer, and on the work clock.
    """

    def __init__(self, heard: Heard, work: Activity) -> None:
        self.period = np.nan
        self._heard, self._work = heard, work
        self._tail = False  # whether the last boundary is the end of work
        self.clear()

    def clear(self) -> None:
        """There are no epochs."""
        self.follower: Follower | None = None
        self.boundaries = Boundaries()

    def take_over(self, searched: Search) -> None:
        """The boundaries of an answer with verdict `epochs`, to be followed."""
        found, first, width, start = searched.found, searched.first, searched.width, self._work.start
        assert found.period_s is not None
        period = found.period_s / self._heard.step_s
        marks, matches = self._marks(found)
        # The ends of what was searched are the tracker's guesses, unless the job itself began or ended there.
        inside = np.ones(marks.size, dtype=bool)
        # A fifth of a period by choice, here and below.
        inside[0] = first - start < width or marks[0] - first > 0.2 * period
        ended = self._work.idle > self._work.rest_after
        inside[-1] = ended or self._heard.now - marks[-1] > 0.2 * period
        self._tail = ended and self._work.busy_until - marks[-1] < 0.2 * period
        if inside.any():
            marks, matches = marks[inside], matches[inside]
        before = self.boundaries.period(self._heard.quantum)
        if before is None or not close(period, before):
            self.boundaries = Boundaries()
        self.period = period
        self.follower = None
        if found.clock == "wall" and period >= FEWEST_READINGS:
            begun = marks[marks - start > 0.25 * period]  # by choice
            try:
                self.follower = Follower(self._heard.pyramid, begun if begun.size else marks, period)
            except ValueError:
                self.follower = None
        if width > 1 and self.follower is not None:
            marks = np.array([self._sharpest(mark, self.follower) for mark in marks])
        self.boundaries.merge(marks, matches, period)
        if self.follower is not None:
            self.follower.expect_after(self.boundaries.last)

    def _sharpest(self, mark: float, follower: Follower) -> float:
        """A boundary as it was seen when its samples were still held, else as sharp as it can be seen now."""
        seen = self.boundaries.near(mark, 0.05 * self.period)  # within 5 % a boundary is right
        return follower.refined(mark) if seen is None else seen

    def _marks(self, found: Detection) -> tuple[Array, Array]:
        """Boundaries of an answer in samples, and how well they match."""
        assert self._heard.resampler.origin is not None
        times = np.array([*[epoch.start for epoch in found.epochs], found.epochs[-1].end])
        sure = np.array([epoch.confidence for epoch in found.epochs])
        samples = (times - self._heard.resampler.origin) / self._heard.step_s
        return samples, np.maximum(np.append(sure, 0), np.append(0, sure))

    def resume(self, *, idle: bool) -> bool:
        """The job had only paused: where the pause began is not where an epoch ended. Whether a boundary went.

        Args:
            idle: whether the device was idle; whatever came meanwhile, no boundary is overdue then.
        """
        tail, self._tail = self._tail, False
        if self.follower is None:
            return False
        if tail and self.boundaries.positions.size > 1:
            self.boundaries.drop_last()
            self.follower.expect_after(self.boundaries.last)
            return True
        if idle:
            self.follower.expect_after(float(self._heard.now))
        return False

    def unlike_since(self) -> float | None:
        """The sample from which on the last intervals are those of another job; None if they are not."""
        assert self.follower is not None
        positions, period = self.boundaries.positions, self.follower.period
        uneven = np.abs(np.diff(positions) / period - 1) > EVEN
        if uneven.size < UNLIKE or not uneven[-UNLIKE:].all():
            return None
        even = np.flatnonzero(~uneven)
        return float(positions[even[-1] + 1 if even.size else 0])

    def epochs(self, first: int = 0) -> tuple[Epoch, ...]:
        """The epochs that begin at the boundaries from `first` on."""
        assert self._heard.resampler.origin is not None
        # A reading that averages some samples shows a change on average so much later than one of a sample.
        origin = self._heard.resampler.origin - (self._heard.quantum - 1) * self._heard.step_s
        return self.boundaries.epochs(origin, self._heard.step_s, first)

    def told(self, answer: Detection, epochs: tuple[Epoch, ...]) -> Detection:
        """The answer with these epochs, and on the wall clock their mean."""
        assert answer.period_s is not None
        period = answer.period_s
        if self.follower is not None and (typical := self.boundaries.period(self._heard.quantum)) is not None:
            self.period, period = typical, typical * self._heard.step_s
        jobs = (Job(period, epochs, answer.confidence), *answer.jobs[1:])
        return replace(answer, period_s=period, epochs=epochs, jobs=jobs)
