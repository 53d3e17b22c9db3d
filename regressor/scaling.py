"""How a job's speed changes with the number of its GPUs in one machine, at the same batch on each of them.

A step on n GPUs takes the time of a step on one, and what its GPUs then exchange:

    efficiency(n) = 1 / (1 + cost · 2(n − 1)/n · link^-a · rate^-b)

2(n − 1)/n is what a ring all-reduce sends (Patarasuk and Yuan 2009), link the bandwidth between the GPUs. That the cost falls
with the arithmetic rate is measured, not physics: faster GPUs are in machines with newer hosts, links and software. How much
a job exchanges is not known, so that every job has the cost of a typical one and a wide interval.
"""

from dataclasses import dataclass

import numpy as np

from epochcast.regressor.gpus import Gpu
from epochcast.regressor.prediction import Prediction

# Bytes/s of one lane of PCI Express 3.0 in both directions, as NVLink's figures count; each generation doubles it. 8 GT/s, of
# which 128 in 130 bits are data.
_PCIE3_LANE = 2 * 0.985e9
# Of a custom GPU whose data sheet gives neither. By choice: sixteen lanes of PCI Express 4.0.
_TYPICAL_LINK = 16 * 2 * _PCIE3_LANE

# The units of link and rate, so that the cost is that of a GPU like a V100 with PCI Express.
_LINK, _RATE = 1e11, 1e13


@dataclass(frozen=True)
class GpuCountScaling:
    """The model; the defaults are what was learnt from ../shared/data/cross_gpu (lab/speed/regressor/scaling.py).

    Attributes:
        log_cost: log of the cost on a GPU of link 100 GB/s and rate 10 TFLOP/s.
        link, rate: the exponents a and b.
        half_width: of the 90 % interval of log seconds where the number of GPUs doubles; it grows with the root of the
            doublings.
    """

    log_cost: float = -2.184
    link: float = 0.3247
    rate: float = 0.4134
    half_width: float = 0.2494

    def log_seconds(self, gpu: Gpu, gpus: int, batch: float = 1.0) -> float:
        """Log of seconds of some work on so many GPUs of a kind over seconds on one of them.

        ``batch``: on each GPU, relative to the job's own; with a larger one there are fewer steps, each with its exchange.
        """
        return float(np.log1p(self._overhead(gpu, gpus) / batch) - np.log(gpus))

    def on_gpus(self, prediction: Prediction, gpu: Gpu, gpus: int) -> Prediction:
        """The prediction for ``gpus`` of its GPU in each machine, with the same batch on each."""
        before, batch = prediction.gpus, prediction.batch
        if gpus == before:
            return prediction
        log_factor = self.log_seconds(gpu, gpus, batch) - self.log_seconds(gpu, before, batch)
        number = f"{gpus} GPU{'s' * (gpus > 1)} instead of {before}"
        but = ", except for waits" if prediction.waits else ""
        why = f"{number}: {np.exp(-log_factor):.2f} times as fast, as measured jobs scaled{but}"
        return prediction.changed(log_factor, self.width(before, gpus), gpus=gpus, why=why)

    def width(self, before: int, after: int) -> float:
        """Half-width of the 90 % interval of the difference between two :meth:`log_seconds`."""
        return float(self.half_width * doublings(before, after) ** 0.5)

    def _overhead(self, gpu: Gpu, gpus: int) -> float:
        """Time that GPUs exchange, as a share of the time that they compute."""
        cost = self.log_cost - self.link * np.log(_link(gpu) / _LINK) - self.rate * np.log(gpu.effective_flops / _RATE)
        return float(np.exp(cost) * 2 * (gpus - 1) / gpus)


def doublings(before: int, after: int) -> float:
    """How often a number of GPUs doubles or halves."""
    return abs(float(np.log2(after / before)))


def _link(gpu: Gpu) -> float:
    """Bytes/s between GPUs of a machine, both directions together: of NVLink, or of PCI Express."""
    if gpu.nvlink_bandwidth:
        return gpu.nvlink_bandwidth
    if gpu.pcie_gen is None:
        return _TYPICAL_LINK
    # Sixteen lanes, as every board of the catalogue has.
    return (gpu.pcie_width or 16) * _PCIE3_LANE * 2.0 ** (gpu.pcie_gen - 3)
