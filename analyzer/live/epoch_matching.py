"""Epochs that are detected again: which known epochs they match, so that none is stored twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

SHARE = 0.5
"""Epochs that overlap by more than this share of the shorter one are the same epoch."""


class TimeSpan(Protocol):
    """Anything that lasts from ``start`` to ``end`` [unix s]."""

    @property
    def start(self) -> float:
        """When it began."""

    @property
    def end(self) -> float:
        """When it ended."""


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
