"""The boundaries of an answer, in bounded memory: those that a search found, and the next ones as they come."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.epochs import Detection, Epoch, JobEpochs
from epochcast.detector.methods.track.boundaries import EVEN, typical
from epochcast.detector.methods.track.cycle import FEWEST_READINGS
from epochcast.detector.methods.track.periods import same
from epochcast.detector.stream.follower import Follower
from epochcast.detector.stream.heard import KEPT, Heard, Search
from epochcast.detector.stream.work import StreamActivity

Array = NDArray[np.float64]

#: So many intervals in a row unlike the period (EVEN) are those of another job. By choice, set by hand;
#: lab/speed/detector/streaming.py measures what it brings with the others.
UNLIKE = 3


class Course:
    """Boundaries, and what follows them.

    Attributes:
        positions: (k,) boundaries, samples of the stream's even grid, increasing.
        matches: (k,) how well each matches the others, 0..1.
        period: samples; NaN before any answer.
        follower: finds the next boundaries; None without an answer, and on the work clock.
    """

    def __init__(self, heard: Heard, work: StreamActivity) -> None:
        self.period = np.nan
        self._heard, self._work = heard, work
        self._tail = False  # whether the last boundary is the end of work
        self.clear()

    def clear(self) -> None:
        """There are no epochs."""
        self.follower: Follower | None = None
        self.positions: Array = np.empty(0)
        self.matches: Array = np.empty(0)

    @property
    def last(self) -> float:
        """The latest boundary; there must be one."""
        return float(self.positions[-1])

    def append(self, position: float, match: float) -> None:
        """One more boundary, after all others."""
        self.positions = np.append(self.positions, position)[-KEPT:]
        self.matches = np.append(self.matches, match)[-KEPT:]

    def _usual(self) -> float | None:
        """The usual interval, as the tracker has it where readings change every `quantum` samples; None without any."""
        return None if self.positions.size < 2 else typical(np.diff(self.positions), self._heard.quantum)

    def take_over(self, searched: Search) -> None:
        """The boundaries of an answer with verdict `epochs`, to be followed."""
        detection, first, width, start = searched.detection, searched.first, searched.width, self._work.start
        assert detection.period_s is not None
        period = detection.period_s / self._heard.step_s
        marks, matches = self._marks(detection)
        # The ends of what was searched are the tracker's guesses, unless the job itself began or ended there.
        inside = np.ones(marks.size, dtype=bool)
        # A fifth of a period by choice, here and below.
        inside[0] = first - start < width or marks[0] - first > 0.2 * period
        ended = self._work.idle > self._work.rest_after
        inside[-1] = ended or self._heard.now - marks[-1] > 0.2 * period
        self._tail = ended and self._work.busy_until - marks[-1] < 0.2 * period
        if inside.any():
            marks, matches = marks[inside], matches[inside]
        before = self._usual()
        if before is None or not same(period, before):
            self.clear()
        self.period, self.follower = period, None
        if detection.clock == "wall" and period >= FEWEST_READINGS:
            begun = marks[marks - start > 0.25 * period]  # by choice
            try:
                self.follower = Follower(self._heard.pyramid, begun if begun.size else marks, period)
            except ValueError:
                self.follower = None
        if width > 1 and self.follower is not None:
            marks = np.array([self._sharpest(mark, self.follower) for mark in marks])
        # In the place of all between the first and the last of these.
        keep = (self.positions < marks[0] - 0.5 * period) | (self.positions > marks[-1] + 0.5 * period)
        merged = np.concatenate([self.positions[keep], marks])
        order = np.argsort(merged, kind="stable")[-KEPT:]
        self.positions, self.matches = merged[order], np.concatenate([self.matches[keep], matches])[order]
        if self.follower is not None:
            self.follower.expect_after(self.last)

    def _sharpest(self, mark: float, follower: Follower) -> float:
        """A boundary as it was seen when its samples were still held, else as sharp as it can be seen now."""
        seen = self.positions[np.abs(self.positions - mark) < 0.05 * self.period]  # within 5 % a boundary is right
        return float(seen[np.argmin(np.abs(seen - mark))]) if seen.size else follower.refined(mark)

    def _marks(self, detection: Detection) -> tuple[Array, Array]:
        """Boundaries of an answer in samples, and how well they match."""
        assert self._heard.resampler.origin is not None
        times = np.array([*[epoch.start for epoch in detection.epochs], detection.epochs[-1].end])
        sure = np.array([epoch.confidence for epoch in detection.epochs])
        samples = (times - self._heard.resampler.origin) / self._heard.step_s
        return samples, np.maximum(np.append(sure, 0), np.append(0, sure))

    def resume(self, *, idle: bool) -> bool:
        """The job had only paused: where the pause began is not where an epoch ended. Whether a boundary went.

        Args:
            idle: whether the device was idle; then no boundary is overdue.
        """
        tail, self._tail = self._tail, False
        if self.follower is None:
            return False
        if tail and self.positions.size > 1:
            self.positions, self.matches = self.positions[:-1], self.matches[:-1]
            self.follower.expect_after(self.last)
            return True
        if idle:
            self.follower.expect_after(float(self._heard.now))
        return False

    def unlike_since(self) -> float | None:
        """The sample from which on the last intervals are those of another job; None if they are not."""
        assert self.follower is not None
        positions, period = self.positions, self.follower.period
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
        times = (origin + self._heard.step_s * self.positions[first:]).tolist()
        pairs = zip(pairwise(times), pairwise(self.matches[first:].tolist()), strict=True)
        epochs = [Epoch(start, end, min(pair)) for (start, end), pair in pairs]
        period, near = self.period * self._heard.step_s, self._heard.quantum * self._heard.step_s
        holes = [(begin - near, end + near) for begin, end in self._heard.holes if end - begin > EVEN * period]
        return tuple(epoch for epoch in epochs if not any(_unseen(epoch, hole, period) for hole in holes))

    def with_epochs(self, answer: Detection, epochs: tuple[Epoch, ...]) -> Detection:
        """The answer with these epochs, and on the wall clock their mean."""
        assert answer.period_s is not None
        period = answer.period_s
        if self.follower is not None and (usual := self._usual()) is not None:
            self.period, period = usual, usual * self._heard.step_s
        jobs = (JobEpochs(period, epochs, answer.confidence), *answer.jobs[1:])
        return replace(answer, period_s=period, epochs=epochs, jobs=jobs)


def _unseen(epoch: Epoch, hole: tuple[float, float], period: float) -> bool:
    """Whether a boundary of the epoch is in a hole, or a boundary that splits it may be."""
    begin, end = hole
    if epoch.end < begin or epoch.start > end:
        return False
    return epoch.start > begin or epoch.end < end or epoch.end - epoch.start > (1 + EVEN) * period
