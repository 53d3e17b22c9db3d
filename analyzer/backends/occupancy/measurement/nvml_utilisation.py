"""NVML's utilisation of one GPU: the share of the past sample period (1/6 s to 1 s) in which any kernel ran."""

from __future__ import annotations

import math


class NvmlUtilisation:
    """Reads the utilisation of a GPU.

    Args:
        uuid: as NVML writes it, ``GPU-…``; indices differ from CUDA's where CUDA_VISIBLE_DEVICES is set.

    Attributes:
        problem: why it cannot be read (any more); empty if it can.
    """

    def __init__(self, uuid: str) -> None:
        self.problem = ""
        import pynvml

        try:
            pynvml.nvmlInit()
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            self.problem = f"NVML: {error}"

    def __call__(self) -> float:
        """The ratio 0..1; NaN if it cannot be read."""
        import pynvml

        if self.problem:
            return math.nan
        try:
            return float(pynvml.nvmlDeviceGetUtilizationRates(self._handle).gpu) / 100
        except pynvml.NVMLError as error:
            self.problem = f"NVML: {error}"
            return math.nan
