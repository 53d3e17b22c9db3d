"""How fast GPUs are at equal work: one ridge with a penalty for each block of coefficients, learnt from measured rates.

log rate of a work on GPU g = what the work costs anywhere + z·b + noise. The blocks of z are the data sheet x(g, precision),
smooth curves q(x) of it, both by precision and by type of the job, a switch for steps that are too short to fill a GPU, and one
level for each GPU, each GPU and type, each GPU and family, and each architecture, precision and family. Families of short steps
have a switch each, as some fill a GPU in them and some wait for launches. b of a block is normal around 0 with the block's own
deviation: a mixed linear model (Henderson 1975), solved in closed form, with the covariance that intervals need. A level that
was never measured keeps its prior variance. Formulas and ablations:
../shared/research/latency_model.md.
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
# (latency_model.md, "Model"). Those of levels come last; how much families of short steps differ is where its estimate begins.
_SHEET, _SHEET_BY_PRECISION, _SHEET_BY_TYPE, _SHEET_BY_GPUS = 0.25, 0.03, 0.03, 0.05
_SHORT = 0.20
_CURVE, _CURVE_BY_PRECISION, _CURVE_BY_TYPE = 0.06, 0.04, 0.15
_SHORT_OF_FAMILY = "short step of family"
_LEVELS = {"gpu": 0.055, "gpu of type": 0.07, "gpu of family": 0.08, "architecture of family": 0.10, _SHORT_OF_FAMILY: _SHORT}

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

# A step that takes less than this on a GPU of 100 TFLOP/s and 1 TB/s is short: launches and hosts take part of it. The
# threshold and its scale were chosen on the visible rates (latency_model.md, "Limits").
_SHORT_STEP_S = 0.2
_SHORT_FROM = 0.3

# Bytes per SM, the median of the catalogue; for a custom GPU that does not give them.
_TYPICAL_L2 = 105_000


class Work(NamedTuple):
    """What is known of a job apart from the GPU that it runs on.

    Attributes:
        precision: of its matrix products.
        type: of the job; None: not known, so that no type's coefficients count.
        family: the network; None: a new one.
        gpus: how many it runs on.
        short: how short its steps are (:func:`shortness`); 0 for long or unknown ones.
    """

    precision: Precision
    type: JobType | None = None
    family: str | None = None
    gpus: int = 1
    short: float = 0.0


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
        scales_: block of levels -> standard deviation of their coefficients.
        noise_: standard deviation of one log rate by origin.
    """

    def fit(self, rates: Sequence[MeasuredRate]) -> Self:
        """Learn from rates of works that were measured on two GPUs or more."""
        self._scale_sheets()
        self.levels_: dict[str, dict[str, int]] = {}
        for block in _LEVELS:
            keys = {_level(block, rate.gpu, rate.work) for rate in rates}
            self.levels_[block] = {key: column for column, key in enumerate(sorted(keys))}
        works = np.unique([rate.key for rate in rates], return_inverse=True)[1]
        Z = _centred(self._columns([rate.gpu for rate in rates], [rate.work for rate in rates]), works)
        y = _centred(np.array([[rate.log_rate] for rate in rates]), works)[:, 0]
        origins = np.array([rate.origin for rate in rates])
        self.noise_: dict[str, float] = {}
        self.scales_ = dict(_LEVELS)
        for _ in range(_ROUNDS):
            self._solve(Z, y, origins)
            self.noise_, self.scales_[_SHORT_OF_FAMILY] = self._scatter(Z, y, origins, works), self._scatter_of_short()
        self._solve(Z, y, origins)
        return self

    def _solve(self, Z: Matrix, y: Vector, origins: NDArray[np.str_]) -> None:
        deviation = self._deviations(origins)
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

    def _scatter_of_short(self) -> float:
        """How much families of short steps differ, one step of the same fixed point; the start where none was measured."""
        before, last = self.scales_[_SHORT_OF_FAMILY], slice(-len(self.levels_[_SHORT_OF_FAMILY]), None)
        b, left = self._coefficients[last], np.diag(self._covariance)[last]
        freedom = float(np.sum(1 - left / before**2))
        return math.sqrt(float(b @ b) / freedom) if freedom > 1 else before

    def compare(self, sources: Sequence[Gpu], targets: Sequence[Gpu], works: Sequence[Work]) -> Ratios:
        """Log of target over source seconds of each of n works, (n,); a GPU without a rate has its data sheet."""
        # One source has fifty targets, and one GPU is in many questions.
        ends = [(gpu.name, work) for gpus in (sources, targets) for gpu, work in zip(gpus, works, strict=True)]
        gpu_of = dict(zip(ends, [*sources, *targets], strict=True))
        place = {end: row for row, end in enumerate(gpu_of)}
        here, there = np.split(np.array([place[end] for end in ends], dtype=np.intp), 2)
        distinct = [(gpu, work) for (_, work), gpu in gpu_of.items()]
        Z = self._columns([gpu for gpu, _ in distinct], [work for _, work in distinct])
        mean, variance = np.empty(len(works)), np.empty(len(works))
        by_work: dict[Work, list[int]] = defaultdict(list)
        for row, work in enumerate(works):
            by_work[work].append(row)
        for rows in by_work.values():  # whose rows use few of the columns
            change = Z[here[rows]] - Z[there[rows]]
            used = np.flatnonzero(change.any(axis=0))
            change = change[:, used]
            mean[rows] = change @ self._coefficients[used]
            variance[rows] = ((change @ self._covariance[np.ix_(used, used)]) * change).sum(axis=1)
        for block, scale in self.scales_.items():
            keys = [_level(block, gpu, work) for gpu, work in distinct]
            named, unseen = np.array(keys), np.array([key not in self.levels_[block] for key in keys])
            size = unseen * np.array([_size(block, gpu, work) for gpu, work in distinct])
            same = named[here] == named[there]
            variance += np.where(same, (size[here] - size[there]) ** 2, size[here] ** 2 + size[there] ** 2) * scale**2
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
        return all(_level("gpu of family", gpu, work) in self.levels_["gpu of family"] for gpu in gpus)

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

    def _deviations(self, origins: NDArray[np.str_]) -> Vector:
        return np.array([self.noise(origin) for origin in origins.tolist()])

    def _scale_sheets(self) -> None:
        """Standardise figures over the catalogue, and find the curves: a Nyström basis of smooth functions of the sheet."""
        gpus = load_catalog().values()
        sheets = np.array([log_figures(gpu, precision) for precision in ("tf32", "mixed") for gpu in gpus])
        self._centre, self._spread = sheets.mean(axis=0), sheets.std(axis=0)
        self._knots = (sheets - self._centre) / self._spread
        values, vectors = np.linalg.eigh(_kernel(self._knots, self._knots))
        self._basis = vectors[:, -_CURVES:] / np.sqrt(values[-_CURVES:])

    def _columns(self, gpus: Sequence[Gpu], works: Sequence[Work]) -> Matrix:
        """z of each row, shape (n, coefficients)."""
        keys = list(zip([gpu.name for gpu in gpus], [work.precision for work in works], strict=True))
        gpu_of = dict(zip(keys, gpus, strict=True))
        of_key = {key: log_figures(gpu, key[1]) for key, gpu in gpu_of.items()}
        distinct = {key: row for row, key in enumerate(of_key)}
        at = np.array([distinct[key] for key in keys], dtype=np.intp)
        figures = np.array(list(of_key.values())).reshape(len(of_key), len(self._centre))
        standard = (figures - self._centre) / self._spread
        sheet, curve = standard[at], (_kernel(standard, self._knots) @ self._basis)[at]
        precision = _one_hot([work.precision for work in works], {name: place for place, name in enumerate(PRECISIONS)})
        job_type = _one_hot([work.type for work in works], {name: place for place, name in enumerate(JOB_TYPES)})
        numbers = np.array([[math.log2(work.gpus) / 3] for work in works])  # 1 for the eight GPUs of a machine
        short = np.array([[work.short] for work in works]) * _log_speed(figures)[at, None]
        parts = [sheet, _each(sheet, precision), _each(sheet, job_type), sheet * numbers, short]
        parts += [curve, _each(curve, precision), _each(curve, job_type)]
        for block, levels in self.levels_.items():
            rows = list(zip(gpus, works, strict=True))
            sizes = np.array([[_size(block, gpu, work)] for gpu, work in rows])
            parts.append(sizes * _one_hot([_level(block, gpu, work) for gpu, work in rows], levels))
        return np.concatenate(parts, axis=1)

    def _scales(self) -> Vector:
        figures, precisions, types = len(self._centre), len(PRECISIONS), len(JOB_TYPES)
        scales = [_SHEET] * figures + [_SHEET_BY_PRECISION] * (figures * precisions) + [_SHEET_BY_TYPE] * (figures * types)
        scales += [_SHEET_BY_GPUS] * figures + [_SHORT] + [_CURVE] * _CURVES
        scales += [_CURVE_BY_PRECISION] * (_CURVES * precisions) + [_CURVE_BY_TYPE] * (_CURVES * types)
        for block, levels in self.levels_.items():
            scales += [self.scales_[block]] * len(levels)
        return np.array(scales)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learnt in numbers; the covariance in single precision, which keeps six digits of a width."""
        names = ("centre", "spread", "knots", "basis", "coefficients")
        return {name: getattr(self, f"_{name}") for name in names} | {"covariance": self._covariance.astype(np.float32)}

    def state(self) -> dict[str, Any]:
        """What was learnt in names, as JSON values."""
        levels = {block: list(levels) for block, levels in self.levels_.items()}
        return {"levels": levels, "scales": self.scales_, "noise": self.noise_}

    @classmethod
    def restored(cls, state: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The ridge of :meth:`state` and :meth:`arrays`."""
        ridge = cls()
        ridge.levels_ = {block: {key: column for column, key in enumerate(keys)} for block, keys in state["levels"].items()}
        ridge.scales_, ridge.noise_ = dict(state["scales"]), dict(state["noise"])
        for name, array in arrays.items():
            setattr(ridge, f"_{name}", array.astype(np.float64))
        return ridge


@lru_cache(1000)
def log_figures(gpu: Gpu, precision: Precision) -> tuple[float, ...]:
    """Logs of figures of a GPU, base units: its peak in a precision, FP32, bandwidth, L2, SMs, clock, TDP."""
    fp32, l2 = 2.0 * gpu.cuda_cores * gpu.boost_clock, gpu.l2_cache or _TYPICAL_L2 * gpu.sm_count
    peak = arithmetic_rate(gpu, precision)
    figures = (peak, fp32, gpu.memory_bandwidth, l2, gpu.sm_count, gpu.boost_clock, gpu.tdp)
    return tuple(math.log(figure) for figure in figures)


def log_speed(gpu: Gpu, precision: Precision) -> float:
    """Log of the geometric mean of peak and bandwidth, in units of 100 TFLOP/s and 1 TB/s."""
    return float(_log_speed(np.array([log_figures(gpu, precision)]))[0])


def _log_speed(figures: Matrix) -> Vector:
    return (figures[:, 0] - math.log(1e14) + figures[:, 2] - math.log(1e12)) / 2


def log_step(step_s: float, gpu: Gpu, precision: Precision) -> float:
    """Half the log of a step's seconds, carried to a GPU of 100 TFLOP/s and 1 TB/s, over those of a step that fills it."""
    return (math.log(step_s / _SHORT_STEP_S) + log_speed(gpu, precision)) / 2


def shortness(log_of_step: float) -> float:
    """How short a step is, from :func:`log_step`; 0 for one that fills a GPU."""
    return max(0.0, -log_of_step - _SHORT_FROM)


def _level(block: str, gpu: Gpu, work: Work) -> str:
    """The level of a block that a rate belongs to; one of an unknown type or family is never among those that were measured.

    What a type or a family does in short steps says nothing of it in steps that fill a GPU.
    """
    job_type, family = (f"{name or ''}{'|short' * (work.short > 0)}" for name in (work.type, work.family))
    levels = {
        "gpu": gpu.name,
        "gpu of type": f"{gpu.name}|{job_type}",
        "gpu of family": f"{gpu.name}|{family}",
        "architecture of family": f"{gpu.compute_capability:.1f}|{work.precision}|{family}",
        _SHORT_OF_FAMILY: family,
    }
    return levels[block]


def _size(block: str, gpu: Gpu, work: Work) -> float:
    """What a level's coefficient is multiplied by."""
    if block != _SHORT_OF_FAMILY:
        return 1.0
    return work.short * log_speed(gpu, work.precision) if work.short else 0.0


def _kernel(a: Matrix, b: Matrix) -> Matrix:
    kernel: Matrix = np.exp(-((a[:, None] - b[None]) ** 2).sum(axis=2) / (2 * _LENGTH))
    return kernel


def _centred(rows: Matrix, works: NDArray[np.intp]) -> Matrix:
    """The rows less their mean within each work, so that what a work costs drops out."""
    total = np.zeros((works.max() + 1, rows.shape[1]))
    np.add.at(total, works, rows)
    centred: Matrix = rows - (total / np.bincount(works)[:, None])[works]
    return centred


def _each(rows: Matrix, one_hot: Matrix) -> Matrix:
    """The rows once for each level, 0 where a row is of another: shape (n, levels · columns)."""
    return (one_hot[:, :, None] * rows[:, None, :]).reshape(len(rows), -1)


def _one_hot(keys: Sequence[Any], levels: Mapping[Any, int]) -> Matrix:
    """A column for each level; none for a key that is not one."""
    rows = np.zeros((len(keys), len(levels)))
    for row, key in enumerate(keys):
        if key in levels:
            rows[row, levels[key]] = 1.0
    return rows
