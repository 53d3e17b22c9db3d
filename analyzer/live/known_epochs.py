"""The epochs of one GPU that are published: what an answer of the detector adds to them, and which of them it replaces."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from epochcast.analyzer.telemetry.gpu_report import EpochRecord
from epochcast.detector import Epoch

KNOWN = 1100
"""Newest epochs of a GPU that its watch remembers: a few more than its stream does."""

# Boundaries that a later search moves by so little (samples, share of the epoch) stay where they are.
_MOVED_SAMPLES, _MOVED = 2.5, 0.01


SHARE = 0.5
"""Epochs that overlap by more than this share of the shorter one are the same epoch."""


TimeSpan = Epoch | EpochRecord
"""What lasts from ``start`` to ``end`` [unix s]."""


def same(first: TimeSpan, second: TimeSpan) -> bool:
    """Whether two are one epoch."""
    shorter = min(first.end - first.start, second.end - second.start)
    return min(first.end, second.end) - max(first.start, second.start) > SHARE * shorter


def superseded(known: Iterable[TimeSpan], detected: Sequence[TimeSpan]) -> list[float]:
    """Starts of the known epochs that the detected ones replace.

    A known epoch is replaced if it is the `same` as a detected one, or if several together cover more than half of its time.
    One that was detected again with the same boundaries stays.

    Args:
        known: without two that overlap.
        detected: the same.
    """
    if not detected:
        return []
    starts, ends = (np.array([getattr(epoch, name) for epoch in detected]) for name in ("start", "end"))
    gone = []
    for epoch in known:
        if epoch.end <= starts.min() or epoch.start >= ends.max() or ((starts == epoch.start) & (ends == epoch.end)).any():
            continue
        overlaps = np.clip(np.minimum(ends, epoch.end) - np.maximum(starts, epoch.start), 0, None)
        if (overlaps > SHARE * (ends - starts)).any() or overlaps.sum() > SHARE * (epoch.end - epoch.start):
            gone.append(epoch.start)
    return gone


@dataclass(frozen=True)
class News:
    """What some samples brought.

    Attributes:
        epochs: that have ended, or whose boundaries have moved, with their profiles.
        instead_of: starts of epochs known before that these replace.
    """

    epochs: tuple[EpochRecord, ...] = ()
    instead_of: tuple[float, ...] = ()

    def __add__(self, later: News) -> News:
        """Both, as one change; an epoch of the first that the second replaces never was."""
        kept = tuple(epoch for epoch in self.epochs if epoch.start not in later.instead_of)
        return News((*kept, *later.epochs), (*self.instead_of, *later.instead_of))


class KnownEpochs:
    """The newest epochs of a GPU, none in it twice.

    Attributes:
        newest: oldest first, without their profiles, at most `KNOWN`.
        seen: how many ever ended while the GPU was watched. It never falls: where two turn out to be one, it waits.
    """

    def __init__(self, stored: Sequence[EpochRecord], seen: int) -> None:
        """Start with those of the store, oldest first, and the count of an earlier watch."""
        self.newest = [replace(epoch, profile=None) for epoch in stored[-KNOWN:]]
        self.seen = self._count = seen
        self._settled = {(epoch.start, epoch.end) for epoch in self.newest}

    def settle(
        self, epochs: Sequence[Epoch], *, heard_since: float, hertz: float, record: Callable[[Epoch, float], EpochRecord]
    ) -> News:
        """Take over the epochs of an answer.

        Args:
            epochs: in the order of time.
            heard_since: unix seconds of the stream's first sample; epochs begun before it were seen whole by an earlier watch.
            hertz: samples per second.
            record: makes the record of an epoch, given the start of the first new one.
        """
        fresh = [epoch for epoch in epochs if (epoch.start, epoch.end) not in self._settled]
        self._settled.update((epoch.start, epoch.end) for epoch in fresh)
        begun_here = (self._begun_after_earlier(epoch, heard_since) for epoch in fresh)
        joined = (self._joined(epoch, hertz) for epoch in begun_here if epoch is not None)
        fresh = [epoch for epoch in joined if not self._holds(epoch)]
        if not fresh:
            return News()
        gone = frozenset(superseded(self.newest, fresh))
        records = [record(epoch, fresh[0].start) for epoch in fresh]
        self._count += len(fresh) - len(gone)
        self.seen = max(self.seen, self._count)
        kept = [epoch for epoch in self.newest if epoch.start not in gone]
        kept += [replace(each, profile=None) for each in records]
        self.newest = sorted(kept, key=lambda epoch: epoch.start)[-KNOWN:]
        if gone or len(self._settled) > 4 * KNOWN:  # what went may come again: the detector may take an answer back
            self._settled = {(epoch.start, epoch.end) for epoch in self.newest}
        return News(tuple(records), tuple(sorted(gone)))

    def withdraw_after(self, time: float) -> News:
        """Remove those that end after this time [unix s]."""
        gone = tuple(epoch.start for epoch in self.newest if epoch.end > time)
        self.newest = [epoch for epoch in self.newest if epoch.end <= time]
        self._settled = {(epoch.start, epoch.end) for epoch in self.newest}
        self._count -= len(gone)
        return News((), gone)

    def _begun_after_earlier(self, epoch: Epoch, heard_since: float) -> Epoch | None:
        """The epoch, begun where one ends that an earlier watch saw, or None if it is that one: it was seen whole then."""
        for earlier in reversed(self.newest):
            if earlier.end <= epoch.start:
                return epoch
            if earlier.start < heard_since and earlier.start < epoch.end:
                return None if same(earlier, epoch) else replace(epoch, start=max(epoch.start, earlier.end))
        return epoch

    def _joined(self, epoch: Epoch, hertz: float) -> Epoch:
        """The epoch with known boundaries in place of its own where these hardly differ: later searches move them a little."""
        near = max(_MOVED_SAMPLES / hertz, _MOVED * (epoch.end - epoch.start))
        start, end = epoch.start, epoch.end
        for known in reversed(self.newest):
            if known.end < epoch.start - near:
                break
            for boundary in (known.start, known.end):
                start = boundary if abs(boundary - epoch.start) <= near else start
                end = boundary if abs(boundary - epoch.end) <= near else end
        return replace(epoch, start=start, end=end)

    def _holds(self, epoch: Epoch) -> bool:
        for known in reversed(self.newest):
            if known.end < epoch.end:
                return False
            if (known.start, known.end) == (epoch.start, epoch.end):
                return True
        return False
