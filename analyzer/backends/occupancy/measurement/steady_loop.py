"""A step repeated for a while: how long it takes, and how utilised NVML says the GPU is meanwhile."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from ...distributed.operator_time.timing import timing_of
from .running import Step

_SETTLED_S = 1.0  # NVML tells the utilisation of the past second or less
_BETWEEN_READINGS_S = 0.1
_FEWEST_STEPS = 3


@dataclass(frozen=True)
class Steady:
    """What a steady loop showed.

    Attributes:
        step_s, iqr_s: median and interquartile range of the seconds of one step, each waited for.
        steps: how many.
        nvml_utilisation: mean of the readings of the loop's last part, 0..1; NaN where there was none.
    """

    step_s: float
    iqr_s: float
    steps: int
    nvml_utilisation: float


def run_steadily(step: Step, finish: Callable[[], object], seconds: float, utilisation: Callable[[], float]) -> Steady:
    """Repeat a step for some seconds, and at least three times, after two that are not counted.

    Args:
        step: gives the work to the device.
        finish: waits until it is done.
        seconds: how long; 1 at least if NVML is to be read.
        utilisation: reads NVML's, 0..1, or NaN.
    """
    for _ in range(2):
        step()
        finish()
    times: list[float] = []
    readings: list[float] = []
    begun = time.perf_counter()
    next_reading = begun + _SETTLED_S
    while (now := time.perf_counter()) < begun + seconds or len(times) < _FEWEST_STEPS:
        if now >= next_reading:
            readings.append(utilisation())
            next_reading = now + _BETWEEN_READINGS_S
        before = time.perf_counter()
        step()
        finish()
        times.append(time.perf_counter() - before)
    timing = timing_of(times)
    known = [one for one in readings if not math.isnan(one)]
    return Steady(timing.seconds, timing.iqr, len(times), statistics.fmean(known) if known else math.nan)


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
