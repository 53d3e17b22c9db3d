"""How fast GPUs are at equal work: one ridge with a penalty for each block of coefficients, learnt from measured rates.

log rate of a work on GPU g = what the work costs anywhere + z·b + noise. The blocks of z are the data sheet x(g, precision),
smooth curves q(x) of it, both by precision and by type of the job, and one level for each GPU, each GPU and type, each GPU and
family, and each architecture, precision and family; short steps have types and families of their own, as some fill a GPU in
them and some wait for launches. b of a block is normal around 0 with the block's own deviation: a mixed linear model (Henderson
1975), solved in closed form, with the covariance that intervals need. A level that was never measured keeps its prior variance.
Formulas and ablations: ../shared/research/latency_model.md.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from epochcast.regressor.gpus import Gpu, load_catalog
from epochcast.regressor.job_types import JOB_TYPES, JobType
from epochcast.regressor.precision import PRECISIONS, Precision, arithmetic_rate

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

SHEET_FIGURES = (
    *("sm_count", "cuda_cores", "boost_clock", "memory_bandwidth", "l2_cache", "tdp"),
    *("fp16_tensor_flops", "tf32_tensor_flops", "fp8_tensor_flops"),
)
"""The figures of the catalogue that x(g, p) is made of."""

# Standard deviations of the coefficients by block, in log rate: from the marginal likelihood of the visible rates, rounded
# (latency_model.md, "Model"). Those of levels come last.
_SHEET, _SHEET_BY_PRECISION, _SHEET_BY_TYPE, _SHEET_BY_GPUS = 0.25, 0.03, 0.03, 0.05
_CURVE, _CURVE_BY_PRECISION, _CURVE_BY_TYPE = 0.06, 0.04, 0.15
_LEVELS = {"gpu": 0.055, "gpu of type": 0.07, "gpu of family": 0.08, "architecture of family": 0.10}

# Squared length scale of the curves in standardised figures, as many as there are figures, and how many curves: by choice
# (latency_model.md).
_LENGTH = 7.0
_CURVES = 8

# Of one log rate, before an origin's own scatter is known; the least and the most that is believed; rates that it is estimated
# from at least, and how often: noise and coefficients depend on each other. By choice.
_NOISE = 0.10
_LEAST_NOISE, _MOST_NOISE = 0.03, 0.30
_FEWEST_RATES = 30
_ROUNDS = 3

# A step that takes less than this on a GPU of 100 TFLOP/s and 1 TB/s is short: launches and hosts may take part of it. Chosen
# on the visible rates (latency_model.md, "Limits").
_SHORT_STEP_S = 0.11

# Bytes per SM, the median of the catalogue; for a custom GPU that does not give them.
_TYPICAL_L2 = 105_000


class Work(NamedTuple):
    """What is known of a job apart from the GPU that it runs on.

    Attributes:
        precision: of its matrix products.
        type: of the job; None: not known, so that no type's coefficients count.
        family: the network; None: a new one.
        gpus: how many it runs on.
        short: whether its steps may be too short to fill a GPU (:func:`log_step` below 0); not where that is not known.
    """

    precision: Precision
    type: JobType | None = None
    family: str | None = None
    gpus: int = 1
    short: bool = False


class MeasuredRate(NamedTuple):
    """One measured rate of a work.

    Attributes:
        key: of equal work: only rates of one key are compared.
        work, gpu: what was measured on what.
        log_rate: of work per second.
        origin: rates of one scatter alike.
    """

    key: str
    work: Work
    gpu: Gpu
    log_rate: float
    origin: str = ""


class Ratios(NamedTuple):
    """Log of target over source seconds, and its variance without that of single measurements, shape (n,) each."""

    mean: Vector
    variance: Vector


class BlockedRidge:
    """The fitted model; see the module.

    Attributes:
        levels_: block -> levels that were measured, in the order of their columns.
        noise_: standard deviation of one log rate by origin.
    """

    def fit(self, rates: Sequence[MeasuredRate]) -> Self:
        """Learn from rates of works that were measured on two GPUs or more."""
        self._scale_sheets()
        by_work: dict[Work, list[int]] = defaultdict(list)
        for row, rate in enumerate(rates):
            by_work[rate.work].append(row)
        gpus_of = {work: [rates[row].gpu for row in rows] for work, rows in by_work.items()}
        named: dict[str, set[str]] = defaultdict(set)
        for work, gpus in gpus_of.items():
            for block, names in _levels(gpus, work).items():
                named[block].update(names)
        self.levels_ = {block: {name: column for column, name in enumerate(sorted(named[block]))} for block in _LEVELS}
        Z = np.zeros((len(rates), len(self._scales())))
        for work, rows in by_work.items():
            columns, values, _ = self._rows(gpus_of[work], work, self._sheets(gpus_of[work], work.precision))
            Z[np.array(rows)[:, None], columns] = values
        works = np.unique([rate.key for rate in rates], return_inverse=True)[1]
        Z = _centred(Z, works)
        y = _centred(np.array([[rate.log_rate] for rate in rates]), works)[:, 0]
        origins = np.array([rate.origin for rate in rates])
        self.noise_: dict[str, float] = {}
        for _ in range(_ROUNDS):
            self._solve(Z, y, origins)
            self.noise_ = self._scatter(Z, y, origins, works)
        self._solve(Z, y, origins)
        return self

    def _solve(self, Z: Matrix, y: Vector, origins: NDArray[np.str_]) -> None:
        deviation = np.array([self.noise(origin) for origin in origins.tolist()])
        A = Z / deviation[:, None]
        information = A.T @ A + np.diag(1 / self._scales() ** 2)
        self._covariance = cho_solve(cho_factor(information), np.eye(len(information)))
        self._coefficients = self._covariance @ (A.T @ (y / deviation))

    def _scatter(self, Z: Matrix, y: Vector, origins: NDArray[np.str_], works: NDArray[np.intp]) -> dict[str, float]:
        """Standard deviation of one rate by origin, one step of a fixed point (MacKay 1992, "Bayesian interpolation")."""
        residual, scatter = y - Z @ self._coefficients, {}
        for origin in np.unique(origins).tolist():
            rows = np.flatnonzero(origins == origin)
            if len(rows) < _FEWEST_RATES:
                continue
            explained = np.sum((Z[rows] @ self._covariance) * Z[rows]) / self.noise(origin) ** 2
            freedom = max(len(rows) - len(np.unique(works[rows])) - explained, 1.0)
            deviation = math.sqrt(float(residual[rows] @ residual[rows]) / freedom)
            scatter[origin] = min(max(deviation, _LEAST_NOISE), _MOST_NOISE)
        return scatter

    def compare(self, sources: Sequence[Gpu], targets: Sequence[Gpu], works: Sequence[Work]) -> Ratios:
        """Log of target over source seconds of each of n works, (n,); a GPU without a rate has its data sheet."""
        gpus = {gpu.name: gpu for gpu in (*sources, *targets)}
        place = {name: row for row, name in enumerate(gpus)}
        here, there = (np.array([place[gpu.name] for gpu in ends], dtype=np.intp) for ends in (sources, targets))
        mean, variance = np.empty(len(works)), np.empty(len(works))
        by_work: dict[Work, list[int]] = defaultdict(list)
        for row, work in enumerate(works):
            by_work[work].append(row)
        sheets = {name: self._sheets([*gpus.values()], name) for name in {work.precision for work in by_work}}
        for work, rows in by_work.items():
            columns, values, new = self._rows([*gpus.values()], work, sheets[work.precision])
            change, unseen = (of[here[rows]] - of[there[rows]] for of in (values, new))
            mean[rows] = change @ self._coefficients[columns]
            covariance = self._covariance[np.ix_(columns, columns)]
            variance[rows] = ((change @ covariance) * change).sum(axis=1) + (unseen**2).sum(axis=1)
        return Ratios(mean, variance)

    def noise(self, origin: str | None) -> float:
        """Standard deviation of one measured log rate of an origin."""
        return self.noise_.get(origin or "", _NOISE)

    @property
    def gpus(self) -> list[str]:
        """Names of those that were measured."""
        return list(self.levels_["gpu"])

    def knows(self, gpu: Gpu) -> bool:
        """Whether the GPU was measured."""
        return gpu.name in self.levels_["gpu"]

    def knows_family(self, work: Work, *gpus: Gpu) -> bool:
        """Whether jobs of a work's family were measured on each of the GPUs."""
        return work.family is not None and self.levels_["gpu of family"].keys() >= set(_levels(gpus, work)["gpu of family"])

    def jobs_on_both(self, source: Gpu, target: Gpu) -> int:
        """How many families of jobs were measured on both GPUs."""
        return len(self._families[source.name] & self._families[target.name])

    @cached_property
    def _families(self) -> dict[str, set[str]]:
        families: dict[str, set[str]] = defaultdict(set)
        for key in self.levels_["gpu of family"]:
            gpu, family, *_ = key.split("|")
            families[gpu].add(family)
        return families

    def _scale_sheets(self) -> None:
        """Standardise figures over the catalogue, and find the curves: a Nyström basis of smooth functions of the sheet."""
        gpus = load_catalog().values()
        sheets = np.array([log_figures(gpu, precision) for precision in ("tf32", "mixed") for gpu in gpus])
        self._centre, self._spread = sheets.mean(axis=0), sheets.std(axis=0)
        self._knots = (sheets - self._centre) / self._spread
        values, vectors = np.linalg.eigh(_kernel(self._knots, self._knots))
        self._basis = vectors[:, -_CURVES:] / np.sqrt(values[-_CURVES:])

    def _sheets(self, gpus: Sequence[Gpu], precision: Precision) -> tuple[Matrix, Matrix]:
        """Standardised figures and curves of each GPU, shapes (n, figures) and (n, curves)."""
        standard = (np.array([log_figures(gpu, precision) for gpu in gpus]) - self._centre) / self._spread
        return standard, _kernel(standard, self._knots) @ self._basis

    def _rows(self, gpus: Sequence[Gpu], work: Work, sheets: tuple[Matrix, Matrix]) -> tuple[NDArray[np.intp], Matrix, Matrix]:
        """What z of a work is on n GPUs: m columns that are not 0 everywhere, their values, and levels never measured.

        Returns:
            Numbers of columns, shape (m,); values, shape (n, m); for each level that has no column the value times its prior
            deviation, shape (n, levels).
        """
        parts: list[tuple[int, Matrix]] = [(0, sheets[0] * math.log2(work.gpus) / 3)]  # 1 for the eight of a machine
        begin, kinds = sheets[0].shape[1], (PRECISIONS.index(work.precision), JOB_TYPES.index(work.type) if work.type else None)
        for smooth in sheets:
            width = smooth.shape[1]
            parts.append((begin, smooth))
            begin += width
            for kind, count in zip(kinds, (len(PRECISIONS), len(JOB_TYPES)), strict=True):
                if kind is not None:
                    parts.append((begin + kind * width, smooth))
                begin += count * width
        columns = [np.arange(first, first + part.shape[1]) for first, part in parts]
        values, unseen = [part for _, part in parts], []
        for block, names in _levels(gpus, work).items():
            levels, number = self.levels_[block], {name: row for row, name in enumerate(dict.fromkeys(names))}
            each = np.zeros((len(gpus), len(number)))
            each[np.arange(len(gpus)), [number[name] for name in names]] = 1.0
            own = np.array([levels.get(name, -1) for name in number], dtype=np.intp)
            columns.append(begin + own[own >= 0])
            values.append(each[:, own >= 0])
            unseen.append(each[:, own < 0] * _LEVELS[block])
            begin += len(levels)
        return np.concatenate(columns), np.concatenate(values, axis=1), np.concatenate(unseen, axis=1)

    def _scales(self) -> Vector:
        figures, precisions, types = len(self._centre), len(PRECISIONS), len(JOB_TYPES)
        scales = [_SHEET_BY_GPUS] * figures + [_SHEET] * figures + [_SHEET_BY_PRECISION] * (figures * precisions)
        scales += [_SHEET_BY_TYPE] * (figures * types) + [_CURVE] * _CURVES
        scales += [_CURVE_BY_PRECISION] * (_CURVES * precisions) + [_CURVE_BY_TYPE] * (_CURVES * types)
        for block, levels in self.levels_.items():
            scales += [_LEVELS[block]] * len(levels)
        return np.array(scales)

    def state(self) -> dict[str, Any]:
        """What was learnt; the covariance in single precision, which keeps six digits of a width."""
        learnt = {name: value for name, value in vars(self).items() if name != "_families"}
        return learnt | {"_covariance": self._covariance.astype(np.float32)}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The ridge of :meth:`state`."""
        ridge = cls()
        vars(ridge).update(state)
        return ridge


@lru_cache(1000)
def log_figures(gpu: Gpu, precision: Precision) -> tuple[float, ...]:
    """Logs of figures of a GPU, base units: its peak in a precision, FP32, bandwidth, L2, SMs, clock, TDP."""
    fp32, l2 = 2.0 * gpu.cuda_cores * gpu.boost_clock, gpu.l2_cache or _TYPICAL_L2 * gpu.sm_count
    peak = arithmetic_rate(gpu, precision)
    figures = (peak, fp32, gpu.memory_bandwidth, l2, gpu.sm_count, gpu.boost_clock, gpu.tdp)
    return tuple(math.log(figure) for figure in figures)


def log_step(step_s: float, gpu: Gpu, precision: Precision) -> float:
    """Log of a step's seconds, carried to a GPU of 100 TFLOP/s and 1 TB/s, over those of a step that surely fills it."""
    peak, _, bandwidth, *_ = log_figures(gpu, precision)
    return math.log(step_s / _SHORT_STEP_S) + (peak - math.log(1e14) + bandwidth - math.log(1e12)) / 2


def _levels(gpus: Sequence[Gpu], work: Work) -> dict[str, list[str]]:
    """Block -> the level of a work on each GPU; one of an unknown type or family is never among those that were measured.

    What a type or a family does in short steps says nothing of it in steps that fill a GPU.
    """
    job_type, family = (f"{name or ''}{'|short' * work.short}" for name in (work.type, work.family))
    return {
        "gpu": [gpu.name for gpu in gpus],
        "gpu of type": [f"{gpu.name}|{job_type}" for gpu in gpus],
        "gpu of family": [f"{gpu.name}|{family}" for gpu in gpus],
        "architecture of family": [f"{gpu.compute_capability:.1f}|{work.precision}|{family}" for gpu in gpus],
    }


def _kernel(a: Matrix, b: Matrix) -> Matrix:
    kernel: Matrix = np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * _LENGTH))
    return kernel


def _centred(rows: Matrix, works: NDArray[np.intp]) -> Matrix:
    """The rows less their mean within each work, so that what a work costs drops out."""
    total = np.zeros((works.max() + 1, rows.shape[1]))
    np.add.at(total, works, rows)
    centred: Matrix = rows - (total / np.bincount(works)[:, None])[works]
    return centred
