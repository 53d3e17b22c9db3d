"""How far a GPU is beyond the data sheets of the GPUs in the training data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.gpus import Gpu
from epochcast.regressor.pairs import Pair

_FIGURES = ("effective_flops", "memory_bandwidth")


@dataclass(frozen=True)
class GpuRange:
    """Smallest and largest arithmetic rate [FLOP/s] and memory bandwidth [bytes/s] among the training GPUs."""

    limits: Mapping[str, tuple[float, float]]

    @classmethod
    def of(cls, gpus: Sequence[Gpu]) -> Self:
        """Take the range over GPUs, at least one."""
        values = {figure: [getattr(gpu, figure) for gpu in gpus] for figure in _FIGURES}
        return cls({figure: (float(min(seen)), float(max(seen))) for figure, seen in values.items()})

    def beyond(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return how far outside the farther of both GPUs is, in log units (0 inside, 0.7 at a factor of 2), shape (n,)."""
        gpus = {gpu.name: gpu for pair in pairs for gpu in (pair.source_gpu, pair.target_gpu)}
        distance = {name: self._distance(gpu) for name, gpu in gpus.items()}
        return np.array([max(distance[pair.source_gpu.name], distance[pair.target_gpu.name]) for pair in pairs])

    def support(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return how much of a learnt correction such GPUs keep: 1 inside, 1/(1 + b²) at b log units beyond, shape (n,)."""
        support: NDArray[np.float64] = 1 / (1 + self.beyond(pairs) ** 2)
        return support

    def _distance(self, gpu: Gpu) -> float:
        outside = [
            max(np.log(low / getattr(gpu, figure)), np.log(getattr(gpu, figure) / high), 0.0)
            for figure, (low, high) in self.limits.items()
        ]
        return float(max(outside))
