"""The boundaries of the present job, in bounded memory."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..epochs import Epoch
from ..methods.track.boundaries import typical

Array = NDArray[np.float64]

#: Boundaries kept; the oldest go first. By choice: memory.
KEPT = 1024


class Boundaries:
    """Positions in time, and how well each matches the others.

    Attributes:
        positions: (k,) samples of the stream's even grid, increasing.
        matches: (k,) 0..1.
    """

    def __init__(self) -> None:
        self.positions: Array = np.empty(0)
        self.matches: Array = np.empty(0)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self.positions.nbytes + self.matches.nbytes

    @property
    def last(self) -> float:
        """The latest; there must be one."""
        return float(self.positions[-1])

    def append(self, position: float, match: float) -> None:
        """One more, after all others."""
        self.positions = np.append(self.positions, position)[-KEPT:]
        self.matches = np.append(self.matches, match)[-KEPT:]

    def drop_last(self) -> None:
        """The latest was none."""
        self.positions, self.matches = self.positions[:-1], self.matches[:-1]

    def merge(self, positions: Array, matches: Array, period: float) -> None:
        """Put these in the place of all between the first and the last of them, `period` in samples."""
        keep = (self.positions < positions[0] - 0.5 * period) | (self.positions > positions[-1] + 0.5 * period)
        merged = np.concatenate([self.positions[keep], positions])
        order = np.argsort(merged, kind="stable")[-KEPT:]
        self.positions = merged[order]
        self.matches = np.concatenate([self.matches[keep], matches])[order]

    def near(self, position: float, tolerance: float) -> float | None:
        """The boundary closest to a position, if it is within the tolerance (samples)."""
        if not self.positions.size:
            return None
        nearest = float(self.positions[np.argmin(np.abs(self.positions - position))])
        return nearest if abs(nearest - position) < tolerance else None

    def period(self, quantum: float) -> float | None:
        """The usual interval, as the tracker has it where readings change every `quantum` samples; None without any."""
        return None if self.positions.size < 2 else typical(np.diff(self.positions), quantum)

    def epochs(self, origin: float, step_s: float, first: int = 0) -> tuple[Epoch, ...]:
        """The epochs that begin at the boundaries from number `first` on; `origin`: unix seconds of sample 0."""
        times = (origin + step_s * self.positions[first:]).tolist()
        sure = self.matches[first:].tolist()
        return tuple(Epoch(start, end, min(pair)) for (start, end), pair in zip(pairwise(times), pairwise(sure), strict=True))
