"""How a job's speed changes with the number of its GPUs in one machine, at the same batch on each of them.

A step on n GPUs takes the time of a step on one, and what its GPUs then exchange:

    efficiency(n) = 1 / (1 + cost · 2(n − 1)/n · link^-a · rate^-b)

2(n − 1)/n is what a ring all-reduce sends (Patarasuk and Yuan 2009), link the bandwidth between the GPUs. That the cost falls
with the arithmetic rate is measured, not physics: faster GPUs are in machines with newer hosts, links and software. How much
a job exchanges is not known, so that every job has the cost of a typical one and a wide interval.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from epochcast.regressor.gpus import Catalog, Gpu
from epochcast.regressor.prediction import Prediction
from epochcast.regressor.profile import Profile
from epochcast.regressor.scoring import conformal_quantile

Vector = NDArray[np.float64]

# Bytes/s of one lane of PCI Express 3.0 in both directions, as NVLink's figures count; each generation doubles it. 8 GT/s, of
# which 128 in 130 bits are data.
_PCIE3_LANE = 2 * 0.985e9
# Of a custom GPU whose data sheet gives neither. By choice: sixteen lanes of PCI Express 4.0.
_TYPICAL_LINK = 16 * 2 * _PCIE3_LANE

# The units of link and rate, so that the cost is that of a GPU like a V100 with PCI Express.
_LINK, _RATE = 1e11, 1e13

# Errors beyond count linearly: some tables hold rates of other settings (BERT on 8 H200 2.5 times as fast as 8 of one).
# By choice.
_OUTLIER = 0.05

# Fewer groups of workloads know less than the public rates (the defaults below). By choice.
_FEWEST_GROUPS = 5


class Growth(NamedTuple):
    """One work measured on two numbers of GPUs of one kind.

    Attributes:
        gpu: the kind.
        group: of the work.
        before, after: numbers of GPUs.
        log_seconds: log of seconds with ``after`` over seconds with ``before``.
        batch_share: batch on each GPU after over before, 1 where it is not known.
    """

    gpu: Gpu
    group: str
    before: int
    after: int
    log_seconds: float
    batch_share: float = 1.0


@dataclass(frozen=True)
class GpuCountScaling:
    """The fitted model; the defaults are what it learnt from ../shared/data/cross_gpu (lab/speed/regressor/scaling.py).

    Attributes:
        log_cost: log of the cost on a GPU of link 100 GB/s and rate 10 TFLOP/s.
        link, rate: the exponents a and b.
        half_width: of the 90 % interval of log seconds where the number of GPUs doubles; it grows with the root of the
            doublings.
    """

    log_cost: float = -2.18
    link: float = 0.32
    rate: float = 0.41
    half_width: float = 0.25

    @classmethod
    def fit(cls, growths: Sequence[Growth]) -> Self:
        """Learn from measured growths; too few groups of workloads leave the defaults.

        The half-width is the conformal quantile of the errors on groups left out.
        """
        groups = np.array([growth.group for growth in growths])
        if len(set(groups.tolist())) < _FEWEST_GROUPS:
            return cls()
        errors = np.empty(len(growths))
        for group in set(groups.tolist()):
            here = groups == group
            without = cls._fitted([growths[row] for row in np.flatnonzero(~here).tolist()])
            for row in np.flatnonzero(here).tolist():
                errors[row] = without.error(growths[row]) / _doublings(growths[row].before, growths[row].after) ** 0.5
        return cls(**asdict(cls._fitted(growths)) | {"half_width": conformal_quantile(errors)})

    @classmethod
    def _fitted(cls, growths: Sequence[Growth]) -> Self:
        def errors(coefficients: Vector) -> Vector:
            tried = cls(*coefficients.tolist())
            return np.array([tried.error(growth) for growth in growths])

        # Bounds by choice: links and rates help, and no more than in proportion.
        start, bounds = [cls.log_cost, cls.link, cls.rate], ([-10, 0, 0], [5, 1, 1])
        fitted = least_squares(errors, start, bounds=bounds, loss="soft_l1", f_scale=_OUTLIER)
        return cls(*fitted.x.tolist())

    def error(self, growth: Growth) -> float:
        """Log of predicted over measured seconds."""
        after = self.log_seconds(growth.gpu, growth.after, growth.batch_share)
        return after - self.log_seconds(growth.gpu, growth.before) - growth.log_seconds

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
        return float(self.half_width * _doublings(before, after) ** 0.5)

    def _overhead(self, gpu: Gpu, gpus: int) -> float:
        """Time that GPUs exchange, as a share of the time that they compute."""
        cost = self.log_cost - self.link * np.log(_link(gpu) / _LINK) - self.rate * np.log(gpu.effective_flops / _RATE)
        return float(np.exp(cost) * 2 * (gpus - 1) / gpus)


def growths_in(profiles: Sequence[Profile], catalog: Catalog) -> list[Growth]:
    """The growths of each workload on one kind of GPU, from the smallest number of them to each larger one."""
    runs: dict[tuple[str, str], list[Profile]] = defaultdict(list)
    for profile in profiles:
        if profile.workload is not None and profile.epoch_s is not None:
            runs[profile.workload, catalog.resolve(profile.gpu).name].append(profile)
    growths = []
    for (workload, gpu), of_work in runs.items():
        first, *larger = sorted(of_work, key=lambda profile: profile.gpus)
        for profile in larger:
            if profile.gpus > first.gpus and first.epoch_s and profile.epoch_s:
                log_seconds = float(np.log(profile.epoch_s / first.epoch_s))
                share = _batch_share(first, profile)
                growths.append(Growth(catalog[gpu], first.group or workload, first.gpus, profile.gpus, log_seconds, share))
    return growths


def _batch_share(before: Profile, after: Profile) -> float:
    """1 where a batch is not known, or where the two cannot be of one job (tables count items in more than one way).

    It may be cut as far as one batch for all, and an eighth of that (by choice).
    """
    if before.batch is None or after.batch is None:
        return 1.0
    share = after.batch / before.batch
    return share if before.gpus / after.gpus / 8 <= share <= 1 else 1.0


def _doublings(before: int, after: int) -> float:
    return abs(float(np.log2(after / before)))


def _link(gpu: Gpu) -> float:
    """Bytes/s between GPUs of a machine, both directions together: of NVLink, or of PCI Express."""
    if gpu.nvlink_bandwidth:
        return gpu.nvlink_bandwidth
    if gpu.pcie_gen is None:
        return _TYPICAL_LINK
    # Sixteen lanes, as every board of the catalogue has.
    return (gpu.pcie_width or 16) * _PCIE3_LANE * 2.0 ** (gpu.pcie_gen - 3)
