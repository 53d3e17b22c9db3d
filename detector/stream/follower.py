"""Finds the boundaries of a known period as they arrive, by the likeness to those before them."""

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.methods.track import boundaries as track
from epochcast.detector.methods.track.boundaries import AFTER, BEFORE
from epochcast.detector.methods.track.grid import Scale
from epochcast.detector.methods.track.template import Matching, median_window, windows
from epochcast.detector.stream.pyramid import FACTOR, LEVELS, Pyramid, pooled

Array = NDArray[np.float64]

#: Bins per period, and boundaries that the template is made of.
BINS, TAUGHT_BY = 64, 12

#: The first sample after a change is one behind it: it averages the interval that ends at its time. As in the tracker's grid.
LAG = 1.0

#: A match this share of the usual one is a boundary, once SETTLED periods have brought no better one ...
SURE, SETTLED = 0.7, 0.15

#: ... and any above this share, once the next boundary is overdue.
POSSIBLE, OVERDUE = 0.5, 1.5


class Follower:
    """Matches the median surroundings of known boundaries with what arrives.

    Positions are samples of the stream's even grid; a boundary is LAG before the first sample after the change, as offline.

    Attributes:
        period: samples.
        usual: median match of the boundaries that it was made from, about 0..1.
    """

    def __init__(self, pyramid: Pyramid, boundaries: Array, period: float) -> None:
        """Learn from at least one boundary whose surroundings the pyramid still holds.

        Raises:
            ValueError: there is none.
        """
        self.period = period
        self._pyramid = pyramid
        # The coarsest level that has 48 bins or more per period (by choice): each level then reaches back ten periods.
        self._level = int(np.clip(np.log(period / 48) / np.log(FACTOR), 0, LEVELS - 1))
        self._width = FACTOR**self._level * max(1, round(period / BINS / FACTOR**self._level))
        length = period / self._width
        self._before, self._after = max(2, round(BEFORE * length)), max(2, round(AFTER * length))
        since = max(0, int(boundaries[-TAUGHT_BY:][0] - period))
        first, bins = self._bins(since)
        self._scales = [Scale(row) for row in np.nan_to_num(bins[0].astype(np.float64))]
        channels = self._normalised(bins).reshape(-1, bins.shape[2])
        starts = np.rint((boundaries + LAG - first) / self._width).astype(int) - self._before
        starts = starts[(starts >= 0) & (starts + self._before + self._after <= channels.shape[1])]
        if not starts.size:
            raise ValueError("no boundary is within the pyramid")
        self._learn_template(channels, starts)
        matches = Matching(channels * self._gain[:, None]).correlate(self._template)
        self.usual = float(np.median(matches[starts]))
        self.expect_after(float(boundaries[-1]))

    def expect_after(self, boundary: float) -> None:
        """The last boundary is known from elsewhere: look for the next one."""
        self._last = boundary
        self._seen: list[tuple[float, float]] = []  # position and match
        self._next = round((boundary + track.SHORTEST * self.period) / self._width) - self._before

    def advance(self) -> tuple[float, float] | None:
        """Look at what has arrived: the next boundary and its match, 0..1, or None as yet."""
        width = self._before + self._after
        ready = self._pyramid.count // self._width - width - self._next + 1
        # A quarter of the settling time: often enough not to be late, seldom enough to be cheap.
        if ready < max(1, SETTLED / 4 * self.period / self._width):
            return None
        first, bins = self._bins(self._next * self._width)
        channels = self._normalised(bins).reshape(-1, bins.shape[2]) * self._gain[:, None]
        if channels.shape[1] < width:
            return None
        matches = Matching(channels).correlate(self._template)
        begin = first // self._width + self._before
        self._seen += [((begin + i) * self._width - LAG, float(match)) for i, match in enumerate(matches)]
        self._next = begin - self._before + matches.size
        return self._decide()

    @property
    def lost(self) -> bool:
        """Whether the next boundary is so late that there will be none: the job has changed or ended."""
        return bool(self._seen) and self._seen[-1][0] > self._last + track.LONGEST * self.period

    def _decide(self) -> tuple[float, float] | None:
        position, match = np.array(self._seen).T
        ratio = np.log(np.maximum(position - self._last, 1) / self.period)
        best = int(np.argmax(match - track.interval_cost(ratio)))
        waited = (position[-1] - position[best]) / self.period
        late = (position[-1] - self._last) / self.period
        if not (waited >= SETTLED and match[best] >= (SURE if late < OVERDUE else POSSIBLE) * self.usual):
            return None
        boundary = self.refined(float(position[best]))
        self.expect_after(boundary)
        return boundary, float(np.clip(match[best], 0, 1))

    def refined(self, position: float) -> float:
        """A boundary moved to the sharpest step near it, at the finest level that holds its surroundings.

        The step is looked for in the projection of all metrics on the change that the template shows at its boundary.
        """
        reach = max(self._width, min(2 * self._width, int(self.period / 8)))
        side = max(2, 2 * round(self.period / track.BINS))
        level = self._pyramid.finest(max(0, int(position) - reach - side))
        bin_ = FACTOR**level
        first, bins = self._pyramid.window(level, max(0, int(position) - reach - side - bin_))
        curve = self._change @ self._normalised(bins[:1, :, : 2 * (reach + side + bin_) // bin_ + 2])[0]
        reach, side = -(-reach // bin_), max(1 if level else 2, side // bin_)
        middle = round((position + LAG - first) / bin_)
        around = np.arange(max(side, middle - reach), min(curve.size - side, middle + reach) + 1)
        if not around.size:
            return position
        total = np.concatenate([[0.0], np.cumsum(curve)])
        step = total[around + side] - 2 * total[around] + total[around - side]
        return float(first + around[np.argmax(step)] * bin_) - LAG

    def _bins(self, since: int) -> tuple[int, NDArray[np.float32]]:
        since = -(-max(since, self._pyramid.first(self._level)) // self._width) * self._width
        first, bins = self._pyramid.window(self._level, since)
        return first, pooled(bins, self._width // FACTOR**self._level)

    def _normalised(self, bins: NDArray[np.float32]) -> Array:
        """(statistics, metrics, n) as channels."""
        return np.stack([scale(np.nan_to_num(bins[:, row])) for row, scale in enumerate(self._scales)], axis=1)

    def _learn_template(self, channels: Array, starts: NDArray[np.int64]) -> None:
        around = windows(channels, starts, self._before + self._after)
        around = around - around.mean(axis=2, keepdims=True)
        template = median_window(around)
        template -= template.mean(axis=1, keepdims=True)
        # How much of what a channel does around boundaries is the same each time; one boundary does not show it.
        # The least weight, 0.01, is by choice.
        power = (around**2).sum(axis=(0, 2))
        same = 1 - ((around - template) ** 2).sum(axis=(0, 2)) / np.maximum(power, 1e-12)
        weights = np.where(power > 1e-9, np.clip(same, 0.01, 1) ** 2, 0.0)
        self._gain = np.sqrt(weights / max(weights.sum(), 1e-12))
        self._template = template * self._gain[:, None]
        near = max(1, min(self._before, self._after) // 3)
        at = self._before
        change = self._template[:, at : at + near].mean(axis=1) - self._template[:, at - near : at].mean(axis=1)
        self._change = (change * self._gain).reshape(3, -1).sum(axis=0)
