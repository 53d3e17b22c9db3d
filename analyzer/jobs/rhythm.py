"""Whether two GPUs work and wait at the same moments: the GPUs of one job do, even where each of them shows another cycle.

It is for history, where samples are at hand. Epochs that end together (`phase`) show it too, but only where each GPU has five;
a job's steps, or its first epochs, have a rhythm as well.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

Array = NDArray[np.float64]

BLOCK = 128
"""Samples in a block."""

# The newest blocks that are kept: 7 minutes at 10 Hz, 4 KB.
_MOST_BLOCKS = 32

# What is slower than so many samples is no rhythm: two jobs that both warm up, or both end, look alike in it.
_SLOW = 21

# Half of what one GPU does within two seconds the other does too: a correlation of the root of that.
_ALIKE = 0.7

# In so many blocks, and in each of so many parts of the time: a single event may be common by chance, and two jobs of nearly
# equal steps are in phase for a while. Of noise alone, where steps are too quick to be seen, a block has a correlation of 0.1.
_FEWEST, _PARTS = 4, 3

# Clocks of nodes differ by up to a sample. What parts two jobs of equal steps is that their distance wanders: that of one job's
# GPUs differs from part to part by how it is sampled alone.
_SHIFTS, _MOST_LAG, _WANDERS = (-1, 0, 1), 4, 0.5

# Steps that each GPU shows with noise of its own are less alike, but always: a correlation of this in this share of the blocks,
# at a distance that stays the same to a tenth of a sample.
_STEADY_ALIKE, _STEADY_SHARE, _STEADY_WANDERS = 0.45, 0.8, 0.1

# So many blocks are looked up: the newest, since the GPUs of a job end about together, and those in which most happens.
_NEWEST, _LIVELIEST = 3, 5

_FULL_SCALE, _DEVIATIONS = 127, 4.0


@dataclass(frozen=True)
class Rhythm:
    """The quick part of a GPU's activity, at moments that are the same for all GPUs.

    Attributes:
        metric: which one.
        step_s: seconds between two moments; these are its whole multiples in unix time.
        first: number of the first block; block ``n`` begins at ``n * BLOCK * step_s``.
        levels: (blocks, BLOCK) deviations from the mean of two seconds, in 1/32 standard deviations.
    """

    metric: str
    step_s: float
    first: int
    levels: NDArray[np.int8]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return vars(self) | {"levels": base64.b64encode(self.levels.tobytes()).decode()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Rhythm:
        """Build what `to_json` gave."""
        levels = np.frombuffer(base64.b64decode(data["levels"]), dtype=np.int8).reshape(-1, BLOCK)
        return cls(**{**data, "levels": levels})


def rhythm_of(metric: str, time: Array, values: Array, step_s: float) -> Rhythm | None:
    """Return the rhythm of the newest part of a stretch of work; None where it has too few samples.

    Args:
        metric: name of the activity.
        time: (n,) unix seconds, ascending.
        values: (n,) of the metric, NaN where there is no reading.
        step_s: seconds between rows.
    """
    read = ~np.isnan(values)
    step_s = float(f"{step_s:.2g}")  # of clocks that differ by a thousandth the same
    length = BLOCK * step_s
    if not read.any():
        return None
    first, end = int(np.ceil(time[read][0] / length)), int(time[read][-1] // length)
    first = max(first, end - _MOST_BLOCKS)
    if end - first < _FEWEST:
        return None
    moments = step_s * np.arange(first * BLOCK, end * BLOCK)
    level = np.interp(moments, time[read], values[read])
    quick = level - uniform_filter1d(level, _SLOW, mode="nearest")
    deviation = float(quick.std())
    if not deviation:
        return None
    scaled = np.clip(quick / deviation / _DEVIATIONS, -1, 1) * _FULL_SCALE
    return Rhythm(metric, step_s, first, np.round(scaled).astype(np.int8).reshape(-1, BLOCK))


def in_rhythm(first: Rhythm, second: Rhythm) -> bool:
    """Whether two GPUs work and wait at the same moments for as long as both show it."""
    if (first.metric, first.step_s) != (second.metric, second.step_s):
        return False
    since = max(first.first, second.first)
    until = min(first.first + len(first.levels), second.first + len(second.levels))
    if until - since < _FEWEST:
        return False
    own, other = (each.levels[since - each.first : until - each.first].astype(float) for each in (first, second))
    lags = [_lag(*parts) for parts in zip(np.array_split(own, _PARTS), np.array_split(other, _PARTS), strict=True)]
    shift = round(float(np.median(lags)))
    wander = max(lags) - min(lags)
    if wander > _WANDERS or shift not in _SHIFTS:
        return False
    shifted = np.roll(other.ravel(), -shift).reshape(other.shape)
    scale = np.sqrt((own**2).sum(axis=1) * (shifted**2).sum(axis=1))
    correlation = (own * shifted).sum(axis=1) / np.where(scale > 0, scale, np.inf)
    if wander <= _STEADY_WANDERS and (correlation >= _STEADY_ALIKE).mean() >= _STEADY_SHARE:
        return True
    alike = correlation >= _ALIKE
    return bool(alike.sum() >= _FEWEST) and all(part.any() for part in np.array_split(alike, _PARTS))


def _lag(own: Array, other: Array) -> float:
    """Samples by which the second is later, to a fraction of one."""
    first, second = own.ravel()[_MOST_LAG:-_MOST_LAG], other.ravel()
    match = np.array([first @ second[lag : lag + first.size] for lag in range(2 * _MOST_LAG + 1)])
    best = int(match.argmax())
    if best in (0, 2 * _MOST_LAG):
        return float(best - _MOST_LAG)
    before, at, after = match[best - 1 : best + 2]
    return float(best - _MOST_LAG + 0.5 * (before - after) / (before - 2 * at + after))


class RhythmCandidates:
    """Which GPUs another one may share its rhythm with, by some of their blocks; `in_rhythm` decides."""

    def __init__(self) -> None:
        """Begin with none."""
        self._blocks: dict[tuple[str, float, int], _Alike] = defaultdict(_Alike)

    def add(self, number: int, rhythm: Rhythm) -> None:
        """Put a GPU in."""
        for place, block in _telling(rhythm):
            self._blocks[place].add(number, block)

    def near(self, rhythm: Rhythm) -> set[int]:
        """Return the numbers of those whose activity was alike in one of these blocks."""
        return {
            number for place, block in _telling(rhythm) if place in self._blocks for number in self._blocks[place].to(block)
        }


def _telling(rhythm: Rhythm) -> list[tuple[tuple[str, float, int], NDArray[np.float32]]]:
    """Some of its blocks, each with what it is the block of, scaled to length 1."""
    levels = rhythm.levels.astype(np.float32)
    length = np.linalg.norm(levels, axis=1)
    rows = {*range(len(levels) - _NEWEST, len(levels)), *np.argsort(length)[-_LIVELIEST:].tolist()}
    return [
        ((rhythm.metric, rhythm.step_s, rhythm.first + row), levels[row] / length[row])
        for row in sorted(rows)
        if length[row] > 0
    ]


class _Alike:
    """One block of many GPUs, in a matrix that grows."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._rows = np.empty((8, BLOCK), dtype=np.float32)

    def add(self, number: int, block: NDArray[np.float32]) -> None:
        if len(self._numbers) == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[len(self._numbers)] = block
        self._numbers.append(number)

    def to(self, block: NDArray[np.float32]) -> list[int]:
        shifted = np.stack([np.roll(block, shift) for shift in _SHIFTS], axis=1)
        alike = (self._rows[: len(self._numbers)] @ shifted).max(axis=1) >= _ALIKE
        return [self._numbers[place] for place in np.flatnonzero(alike)]
