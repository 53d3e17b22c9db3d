"""The rows of one stretch of work, for the detector and for the profile, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..live.thinned_samples import ThinnedSamples
from .trace_rows import Piece

Array = NDArray[np.float64]

MOST_ROWS = 144_000
"""Rows of a stretch that are analysed as they are: four hours at 10 Hz."""

# Of a longer one the detector sees at most so large a share of them, as means: of slow samples it makes several of its own. A
# stretch of two days at 10 Hz took 1.8 GB with as many means as rows.
_MEANS = 1 / 2


class SpanRows:
    """Collects the rows from ``start`` to ``end`` [unix s], both included.

    Where there are too many, the detector gets the mean of every few in a row, and the profile an even sample of them all
    (`ThinnedSamples`): a mean would hide how much a metric varies.

    Attributes:
        thinned: of so many rows one is left.
    """

    def __init__(self, start: float, end: float, rows: int) -> None:
        """Start empty; ``rows``: about how many will come."""
        self.start, self.end = start, end
        self.thinned = 1 if rows <= MOST_ROWS else math.ceil(rows / (_MEANS * MOST_ROWS))
        self._pieces: list[Piece] = []
        self._waiting: Piece | None = None  # less than a block
        self._sample = ThinnedSamples() if self.thinned > 1 else None

    def add(self, piece: Piece) -> None:
        """Take in what of these rows lies inside."""
        first, last = np.searchsorted(piece.time, [self.start, np.nextafter(self.end, np.inf)])
        if first == last:
            return
        inside = Piece(piece.time[first:last], {name: values[first:last] for name, values in piece.values.items()})
        if self._sample is None:
            self._pieces.append(inside)
            return
        self._sample.append(inside.time, inside.values)
        whole = inside if self._waiting is None else _joined([self._waiting, inside])
        blocks = whole.time.size // self.thinned * self.thinned
        self._waiting = Piece(whole.time[blocks:], {name: values[blocks:] for name, values in whole.values.items()})
        if blocks:
            means = {name: _means(values[:blocks].reshape(-1, self.thinned)) for name, values in whole.values.items()}
            self._pieces.append(Piece(whole.time[self.thinned - 1 : blocks : self.thinned].copy(), means))

    def for_detector(self) -> Piece:
        """All rows, or means of a few each, stamped with the last of them; empty if none came."""
        return _joined(self._pieces) if self._pieces else Piece(np.empty(0), {})

    def for_profile(self) -> tuple[Array, Mapping[str, Array]]:
        """All rows, or an even sample: ``time`` (n,), metric -> (n,)."""
        if self._sample is not None:
            return self._sample.job()
        rows = self.for_detector()
        return rows.time, rows.values


def _joined(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    names = pieces[0].values
    return Piece(
        np.concatenate([piece.time for piece in pieces]),
        {name: np.concatenate([piece.values[name] for piece in pieces]) for name in names},
    )


def _means(blocks: Array) -> Array:
    """The mean of the readings in each row of ``blocks``, NaN where it has none."""
    read = ~np.isnan(blocks)
    counted = read.sum(axis=1)
    sums = np.where(read, blocks, 0.0).sum(axis=1)
    return np.asarray(np.divide(sums, counted, out=np.full(counted.size, np.nan), where=counted > 0))
