"""Operator times by the data sheet alone: FLOPs over the peak of the dtype, bytes over the bandwidth, whichever takes longer.

Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model", CACM 2009. A lower bound and a baseline:
nothing in it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.graph import Operator
from epochcast.analyzer.backends.distributed.precision import peak_flops
from epochcast.regressor import Gpu


@dataclass(frozen=True)
class Roofline:
    """Operator times of a GPU of the catalogue at full speed; ``tf32``: FP32 matrix products run on TF32 tensor cores."""

    gpu: Gpu
    tf32: bool = False

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0.

        Raises:
            InputError: the GPU lacks a dtype.
        """
        return np.array([self._seconds(operator) for operator in operators], dtype=np.float64)

    def _seconds(self, operator: Operator) -> float:
        if operator.kind == "communication":
            return 0.0
        computing = operator.flops / peak_flops(self.gpu, operator.dtype, self.tf32) if operator.flops else 0.0
        return max(computing, operator.bytes / self.gpu.memory_bandwidth)
