"""Epochs that were found again: which known ones they are, so that none stands in the store twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

SHARE = 0.5
"""Epochs that overlap by more than this share of the shorter one are the same epoch."""


class Span(Protocol):
    """Anything that lasts from ``start`` to ``end`` [unix s]."""

    @property
    def start(self) -> float:
        """When it began."""

    @property
    def end(self) -> float:
        """When it ended."""


def same(one: Span, other: Span) -> bool:
    """Whether two are one epoch."""
    shorter = min(one.end - one.start, other.end - other.start)
    return min(one.end, other.end) - max(one.start, other.start) > SHARE * shorter


def superseded(known: Iterable[Span], found: Sequence[Span]) -> list[float]:
    """Starts of the known epochs that the found ones take the place of.

    These are those that are the `same` as one of them, and those of which more than half is covered by several together. A
    known epoch that was found again as it is, is not among them.

    Args:
        known: without two that overlap.
        found: the same.
    """
    if not found:
        return []
    starts, ends = (np.array([getattr(one, name) for one in found]) for name in ("start", "end"))
    gone = []
    for one in known:
        if one.end <= starts.min() or one.start >= ends.max() or ((starts == one.start) & (ends == one.end)).any():
            continue
        overlaps = np.clip(np.minimum(ends, one.end) - np.maximum(starts, one.start), 0, None)
        if (overlaps > SHARE * (ends - starts)).any() or overlaps.sum() > SHARE * (one.end - one.start):
            gone.append(one.start)
    return gone
