"""Operator times by the data sheet alone: FLOPs over the peak of the dtype, bytes over the bandwidth, whichever takes longer.

Williams, Waterman and Patterson, "Roofline: An Insightful Visual Performance Model", CACM 2009. A lower bound and a baseline:
nothing in it was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.models.graph import Operator
from epochcast.analyzer.backends.distributed.operator_time.shapes import shapes_of
from epochcast.analyzer.backends.distributed.plan.job import Precision, peak_flops
from epochcast.regressor import Gpu


@dataclass(frozen=True)
class Roofline:
    """Operator times of a GPU of the catalogue at full speed; ``fused``: neighbouring one-pass operators are one kernel."""

    gpu: Gpu
    precision: Precision
    fused: bool = False

    def seconds(self, operators: Sequence[Operator]) -> NDArray[np.float64]:
        """Seconds of each operator, shape (n,); communication counts as 0.

        Raises:
            InputError: the GPU lacks a dtype.
        """
        computing = [index for index, operator in enumerate(operators) if operator.kind != "communication"]
        shapes = shapes_of([operators[index] for index in computing], self.precision, self.fused)
        peaks = [
            peak_flops(self.gpu, dtype) if flops else 1.0 for dtype, flops in zip(shapes["dtype"], shapes["flops"], strict=True)
        ]
        seconds = np.zeros(len(operators))
        seconds[computing] = np.maximum(shapes["flops"] / peaks, shapes["bytes"] / self.gpu.memory_bandwidth)
        return seconds
