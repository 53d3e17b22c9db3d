"""Does a period predict better than others would? Cross-validated folding, which slow drift and chance cannot fool.

Each cycle is predicted from the mean of all others. What that explains is compared with what periods explain that have
nothing to do with the cycle: random walks and bursts give those as much, and noise repeats as well at any of them.
"""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.filters import best_third, running_mean
from epochcast.detector.methods.track.grid import Grid

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. What they find together is measured
# by lab/speed/detector/comparison.py, and calibrate.py fits the confidence to it.

#: Points in a cycle, and cycles, at most. By choice.
BINS, CYCLES = 24, 60

#: Other periods, none near a simple multiple or fraction. By choice.
UNRELATED = (0.62, 0.68, 0.74, 0.8, 0.86, 1.16, 1.25, 1.35, 1.45, 1.6)

#: Parts of the period that may be the cycle, and points in the shortest cycle. By choice: three points are the fewest that show
#: a cycle.
PARTS, SHORTEST = (2, 3), 3

#: A period is tried this far to either side: it is known to some per cent. By choice.
NEAR = (-0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03)

#: Fewest of the other periods that fit, and least spread of what they explain. By choice.
FEWEST, SPREAD = 3, 0.02


def stands_out(grid: Grid, period: float) -> tuple[float, float, float]:
    """How far the period stands out among others [standard deviations of what they explain], the share that it explains, and
    the most that its half or third does.

    Means over the best third of the metrics. (0, 0, 0) where too few cycles fit.

    Args:
        grid: m channels.
        period: samples of the grid.
    """
    size = max(grid.over, round(period / BINS))
    points = grid.values.shape[1] // size
    length = period / size
    values = grid.values[:, : points * size].reshape(-1, points, size).mean(axis=2)
    most = int(CYCLES * length)
    if points > most:
        values = values[:, (points - most) // 2 : (points + most) // 2]
    # 2.2 by choice: two whole cycles and a little.
    others = [length * ratio for ratio in UNRELATED if SHORTEST <= length * ratio < values.shape[1] / 2.2]
    if len(others) < FEWEST or length < SHORTEST:
        return 0.0, 0.0, 0.0
    share = _explained(values, length)
    by_others = np.array([_explained(values, other) for other in others])
    ahead = (share - by_others.mean(axis=0)) / np.maximum(by_others.std(axis=0), SPREAD)
    parts = [_explained(values, length / count, length) for count in PARTS if length / count >= SHORTEST]
    by_part = max((float(best_third(part)) for part in parts), default=0.0)
    return float(best_third(ahead)), float(best_third(share)), by_part


def _explained(values: NDArray[np.float64], period: float, drift: float = 0.0) -> NDArray[np.float64]:
    """Share of each row's variance that the other cycles predict, at the best period near the given one; (m, n) -> (m,).

    What is slower than `drift` (the period, unless it is longer) is taken away first.
    """
    n = values.shape[1]
    residual = values - running_mean(values, min(n, max(3, round(max(drift, period)) | 1)))
    bins = int(np.clip(round(period), 3, BINS))
    best = np.full(values.shape[0], -np.inf)
    for near in NEAR:
        phase = (np.arange(n) / (period * (1 + near)) % 1 * bins).astype(np.int64)
        order = np.argsort(phase, kind="stable")
        starts = np.flatnonzero(np.diff(phase[order], prepend=-1))
        counts = np.diff(np.append(starts, n)).astype(np.float64)
        kept = counts > 1
        sums = np.add.reduceat(residual[:, order], starts, axis=1)[:, kept]
        squares = np.add.reduceat(residual[:, order] ** 2, starts, axis=1)[:, kept]
        count = counts[kept]
        # Of x less the mean of the others in its bin, (count x - sum) / (count - 1), the squares add up to:
        errors = ((count**2 * squares - count * sums**2) / (count - 1) ** 2).sum(axis=1)
        best = np.maximum(best, 1 - errors / np.maximum(squares.sum(axis=1), 1e-12))
    return best
