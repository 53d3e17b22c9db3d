"""What a stream has heard: its samples on an even grid in bounded memory, and the tracker's search of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .pyramid import FACTOR, Pyramid
from .samples import Resampler
from .search import Search, search

Array = NDArray[np.float64]


class Heard:
    """Samples of some metrics since the last hole.

    Attributes:
        resampler: that they come through.
        pyramid: what is held of them.
        searches: how often they were searched so far.
    """

    def __init__(self, metrics: Sequence[str], step_s: float, parameters: Mapping[str, Any]) -> None:
        self.resampler = Resampler(metrics, step_s)
        self.searches = 0
        self._parameters = parameters
        self.begin_anew()

    def begin_anew(self) -> None:
        """What comes next has nothing to do with what came before."""
        metrics = len(self.metrics)
        self.resampler.begin_anew()
        self.pyramid = Pyramid(metrics)
        self._waiting = np.empty((2 * metrics + 1, 0))
        self._counts = np.zeros(metrics + 1)  # changes of each metric, and rows

    @property
    def metrics(self) -> tuple[str, ...]:
        """Their names."""
        return self.resampler.metrics

    @property
    def step_s(self) -> float:
        """Seconds between samples."""
        return self.resampler.step_s

    @property
    def now(self) -> int:
        """Samples so far."""
        return self.pyramid.count

    @property
    def quantum(self) -> float:
        """Samples between two changes of the metric that changes most often, as `Grid.quantum`."""
        return float(max(1.0, (self._counts[-1] - 1) / max(1.0, self._counts[:-1].max())))

    def blocks(self, times: Array, table: Array) -> Iterator[None]:
        """Take in rows, (n,) and (metrics, n), in blocks of always the same samples, however they came; stop after each."""
        samples = np.concatenate([self._waiting, np.concatenate(self.resampler.take(times, table))], axis=1)
        whole = samples.shape[1] // FACTOR * FACTOR
        self._waiting = samples[:, whole:]
        for first in range(0, whole, FACTOR):
            block = samples[:, first : first + FACTOR]
            self.pyramid.append(block[: len(self.metrics)])
            self._counts = block[len(self.metrics) :, -1]
            yield

    def search(self, since: int, *, widest: float = np.inf, whole: bool = False) -> Search | None:
        """What the tracker says of it from sample `since` on, see `search.search`."""
        self.searches += 1
        return search(self.pyramid, self.resampler, since, self._parameters, widest=widest, whole=whole)
