"""How fast GPUs are at equal work: learnt from rates measured on several GPUs, without telemetry.

log speed of job j on GPU g in precision p, up to what the work costs anywhere::

    x(g, p)·(slopes + slopes of p + slopes of j) + GPU g + (GPU g, j) + (architecture of g, p, j) + batch·(b + b of j) + noise

x are logs of data-sheet figures (:data:`FIGURES`). Every coefficient is normal around 0, those of a job too, but for two slopes
(:data:`_ROOFLINE`): a hierarchical linear model (Gelman and Hill 2007, ch. 13), or, the same, a Gaussian process over GPU,
precision and job. A GPU that was never measured has its data sheet and the width of what is not known; a job that was never
measured has the average job's mix.

Given the shared coefficients jobs are independent, so each job's own ones are integrated out by themselves.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from epochcast.regressor.arrays import Arrays, part
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.precision import PRECISIONS, Precision, arithmetic_rate

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

FIGURES = ("arithmetic_rate", "fp32_rate", "effective_rate", "memory_bandwidth", "l2_cache", "sm_count", "tdp")
"""What x(g, p) holds the logs of; the first one by precision, FP32 with and without credit for dual issue."""

SHEET_FIGURES = (
    "sm_count",
    "cuda_cores",
    "boost_clock",
    "memory_bandwidth",
    "l2_cache",
    "tdp",
    "fp16_tensor_flops",
    "tf32_tensor_flops",
    "fp8_tensor_flops",
)
"""The figures of the catalogue that :data:`FIGURES` are made of."""

# What slopes are before anything is measured: half of a job's time is arithmetic, half is memory traffic. With four GPUs alone
# (cloud-hw-trainpred) a GPU left out is 10.1 % off instead of 11.5 %; with 28 it changes nothing.
_ROOFLINE = {"effective_rate": 0.5, "memory_bandwidth": 0.5}

# Standard deviations of the coefficients, in log speed per log figure or in log speed. They maximise the marginal likelihood of
# the rates of ../shared/data/cross_gpu (lab/speed/regressor/speeds.py), rounded.
_SLOPE = 0.27
_SLOPE_OF_PRECISION = 0.03
_SLOPE_OF_JOB = 0.06
_GPU = 0.055
_GPU_OF_JOB = 0.09
_ARCHITECTURE_OF_JOB = 0.10
_BATCH = 0.06
_BATCH_OF_JOB = 0.30

# Of one rate, before an origin's own scatter is known; the least and the most that is believed. By choice.
_NOISE = 0.10
_LEAST_NOISE, _MOST_NOISE = 0.03, 0.30
# Rates that an origin's scatter is estimated from at least, and how often: noise and coefficients depend on each other.
# By choice.
_FEWEST_RATES = 30
_ROUNDS = 3

# A work's cost has no prior: a variance far above that of any log rate (e^±30). By choice.
_FLAT = 1e3


class MeasuredRate(NamedTuple):
    """One measured rate of a work.

    Attributes:
        work: the key of equal work: only rates of one work are compared.
        job: what shares coefficients, such as a network.
        gpu, precision: it was measured on and in.
        log_speed: of work per second.
        log_batch: of the items in one step, relative to others of the work; 0 where it is not known.
        origin: rates of one scatter alike.
    """

    work: str
    job: str
    gpu: Gpu
    precision: Precision
    log_speed: float
    log_batch: float = 0.0
    origin: str = ""


class Change(NamedTuple):
    """Mean and standard deviation of a change in log speed."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Comparison:
    """Log of target over source speed, and its variance, arrays of shape (n,)."""

    mean: Vector
    variance: Vector


# Questions about new jobs whose answers are kept: a fleet has some kinds of GPU in some precisions. 3 kB each.
_MOST_ANSWERS = 100


class Speeds:
    """The fitted model; see the module."""

    # Answers to questions about new jobs, each with its GPUs, by their names and the precisions; of these coefficients.
    _answered: dict[tuple[tuple[str, ...], tuple[Precision, ...]], tuple[list[Gpu], Comparison]]

    def fit(self, rates: Sequence[MeasuredRate]) -> Self:
        """Learn from rates of works that were measured on two GPUs or more."""
        self._gpus = {name: number for number, name in enumerate(sorted({rate.gpu.name for rate in rates}))}
        self._architectures = {name: number for number, name in enumerate(sorted({_architecture(rate.gpu) for rate in rates}))}
        self._centre = (
            np.mean([log_figures(rate.gpu, rate.precision) for rate in rates], axis=0) if rates else np.zeros(len(FIGURES))
        )
        by_job: dict[str, list[MeasuredRate]] = defaultdict(list)
        for rate in rates:
            by_job[rate.job].append(rate)
        self._measured = _measured(by_job)
        self.noise_: dict[str, float] = {}
        for _ in range(_ROUNDS):
            self._fit_jobs(by_job)
            self.noise_ = self._scatter(by_job)
        self._fit_jobs(by_job)
        return self

    def _fit_jobs(self, by_job: dict[str, list[MeasuredRate]]) -> None:
        self._jobs = {job: _Job.of(self, rates) for job, rates in by_job.items()}
        precision = np.diag(1 / self._shared_scales() ** 2)
        evidence = precision @ self._shared_means()
        for job in self._jobs.values():
            precision = precision + job.information
            evidence = evidence + job.evidence
        self._solve(precision, evidence)

    def _solve(self, precision: Matrix, evidence: Vector) -> None:
        self._information, self._evidence = precision, evidence
        self._covariance: Matrix = np.linalg.inv(precision).astype(np.float64)
        self._mean = self._covariance @ evidence
        self._answered = {}

    def without(self, job: str) -> "Speeds":
        """The model that was never shown a job, without another fit: its part of the evidence is taken away again."""
        other = Speeds()
        other.__dict__ |= self.__dict__
        other._jobs = {name: held for name, held in self._jobs.items() if name != job}
        if job in self._jobs:
            other._solve(self._information - self._jobs[job].information, self._evidence - self._jobs[job].evidence)
        return other

    def compare(
        self, sources: Sequence[Gpu], targets: Sequence[Gpu], precisions: Sequence[Precision], jobs: Sequence[str | None]
    ) -> Comparison:
        """Log of target over source speed at the same batch for each of n questions.

        A job that is None, or was never measured, is a new one. So is a GPU without a rate: it has its data sheet.
        """
        if any(job in self._jobs for job in jobs):
            return self._compare(sources, targets, precisions, jobs)
        # Of new jobs the answer is the GPUs' alone, and a fleet asks the same for thousands of them.
        gpus = [*sources, *targets]
        question = tuple(gpu.name for gpu in gpus), tuple(precisions)
        same, answer = self._answered.get(question, ([], None))
        if answer is None or len(same) != len(gpus) or any(one is not other for one, other in zip(same, gpus, strict=True)):
            if len(self._answered) >= _MOST_ANSWERS:
                self._answered.clear()
            answer = self._compare(sources, targets, precisions, jobs)
            self._answered[question] = gpus, answer
        return answer

    def _compare(
        self, sources: Sequence[Gpu], targets: Sequence[Gpu], precisions: Sequence[Precision], jobs: Sequence[str | None]
    ) -> Comparison:
        shared = self._shared(targets, precisions) - self._shared(sources, precisions)
        own = self._own(targets, precisions) - self._own(sources, precisions)
        scales = self._own_scales() ** 2
        mean, left = shared @ self._mean, (own * scales * own).sum(axis=1)
        names = np.array([job if job in self._jobs else "" for job in jobs], dtype=object)
        for name in set(names.tolist()) - {""}:
            rows, job = np.flatnonzero(names == name), self._jobs[name]
            weights = own[rows] @ job.gain
            shared[rows] -= weights @ job.shared  # what the job's own rates cover already
            mean[rows] = shared[rows] @ self._mean + weights @ job.log_speed
            left[rows] -= (weights @ job.own * scales * own[rows]).sum(axis=1)
        variance = (shared @ self._covariance * shared).sum(axis=1) + left
        return Comparison(mean, variance + self._unseen(sources, targets))

    def batch_effect(self, log_batch: float) -> "Change":
        """What a batch larger by ``log_batch`` adds to the log speed of a job that was never measured."""
        variance = self._covariance[-1, -1] + _BATCH_OF_JOB**2
        return Change(float(self._mean[-1]) * log_batch, float(math.sqrt(variance)) * abs(log_batch))

    def knows(self, gpu: Gpu) -> bool:
        """Whether the GPU was measured."""
        return gpu.name in self._gpus

    def jobs_on_both(self, source: Gpu, target: Gpu, precision: Precision) -> int:
        """How many jobs were measured on both GPUs in a precision."""
        source_jobs, target_jobs = (self._measured.get(gpu.name, {}).get(precision, ()) for gpu in (source, target))
        return len(set(source_jobs) & set(target_jobs))

    def forgetting_jobs(self) -> "Speeds":
        """The same model without what is known of each job: every job counts as never measured."""
        other = Speeds()
        other.__dict__ |= self.__dict__ | {"_jobs": {}}
        return other

    def knows_job(self, job: str | None) -> bool:
        """Whether the job was measured."""
        return job in self._jobs

    def _unseen(self, sources: Sequence[Gpu], targets: Sequence[Gpu]) -> Vector:
        """Variance that GPUs and architectures without a rate add; two of one architecture share what is not known of it."""
        variance = np.zeros(len(sources))
        for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
            variance[row] = sum(not self.knows(gpu) for gpu in (source, target)) * (_GPU**2 + _GPU_OF_JOB**2)
            architectures = {_architecture(source), _architecture(target)}
            if len(architectures) > 1:
                variance[row] += len(architectures - self._architectures.keys()) * _ARCHITECTURE_OF_JOB**2
        return variance

    def _scatter(self, by_job: dict[str, list[MeasuredRate]]) -> dict[str, float]:
        """Standard deviation of a single rate by origin, one step of a fixed point (MacKay 1992, "Bayesian interpolation")."""
        squares: dict[str, float] = defaultdict(float)
        freedom: dict[str, float] = defaultdict(float)
        count: dict[str, int] = defaultdict(int)
        for name, rates in by_job.items():
            left, diagonal = self._jobs[name].residuals(self._mean, self._covariance)
            for rate, residual, share in zip(rates, left.tolist(), diagonal.tolist(), strict=True):
                variance = self.noise(rate.origin) ** 2
                squares[rate.origin] += (variance * residual) ** 2
                freedom[rate.origin] += variance * share
                count[rate.origin] += 1
        return {
            origin: float(np.clip(math.sqrt(squares[origin] / freedom[origin]), _LEAST_NOISE, _MOST_NOISE))
            for origin in squares
            if count[origin] >= _FEWEST_RATES
        }

    def noise(self, origin: str | None) -> float:
        """Standard deviation of one measured log rate of an origin."""
        return self.noise_.get(origin or "", _NOISE)

    def state(self) -> dict[str, Any]:
        """Return what was learnt, but for the arrays and what is known of single jobs, as JSON values."""
        return {
            "gpus": list(self._gpus),
            "architectures": list(self._architectures),
            "centre": self._centre.tolist(),
            "noise": self.noise_,
            "measured": self._measured,
        }

    def arrays(self) -> dict[str, Matrix]:
        """Return the shared coefficients; :meth:`state` is the caller's to keep next to them."""
        return {"mean": self._mean, "covariance": self._covariance}

    @classmethod
    def restored(cls, state: Mapping[str, Any], arrays: Arrays) -> Self:
        """Speeds of :meth:`state` and the part ``speeds`` of a model's arrays."""
        speeds = cls()
        speeds._jobs, speeds.noise_, speeds._measured = {}, dict(state["noise"]), state["measured"]
        speeds._gpus = {name: number for number, name in enumerate(state["gpus"])}
        speeds._architectures = {name: number for number, name in enumerate(state["architectures"])}
        speeds._centre = np.array(state["centre"])
        own = part(arrays, "speeds")
        speeds._mean, speeds._covariance = own["mean"], own["covariance"]
        speeds._answered = {}
        return speeds

    def _shared(self, gpus: Sequence[Gpu], precisions: Sequence[Precision], batch: Vector | None = None) -> Matrix:
        """Rows of the coefficients that all jobs share."""
        x = self._x(gpus, precisions)
        gpu = _one_hot([gpu.name for gpu in gpus], self._gpus)
        return np.concatenate([x, *_by_precision(x, precisions), gpu, _column(batch, len(gpus))], axis=1)

    def _own(self, gpus: Sequence[Gpu], precisions: Sequence[Precision], batch: Vector | None = None) -> Matrix:
        """Rows of the coefficients that a job has for itself."""
        architecture = _by_precision(_one_hot([_architecture(gpu) for gpu in gpus], self._architectures), precisions)
        gpu = _one_hot([gpu.name for gpu in gpus], self._gpus)
        return np.concatenate([self._x(gpus, precisions), *architecture, gpu, _column(batch, len(gpus))], axis=1)

    def _shared_scales(self) -> Vector:
        figures = len(FIGURES)
        scales = [_SLOPE] * figures + [_SLOPE_OF_PRECISION] * (figures * len(PRECISIONS)) + [_GPU] * len(self._gpus) + [_BATCH]
        return np.array(scales)

    def _shared_means(self) -> Vector:
        means = np.zeros(len(self._shared_scales()))
        means[[FIGURES.index(figure) for figure in _ROOFLINE]] = list(_ROOFLINE.values())
        return means

    def _own_scales(self) -> Vector:
        scales = [_SLOPE_OF_JOB] * len(FIGURES) + [_ARCHITECTURE_OF_JOB] * (len(self._architectures) * len(PRECISIONS))
        return np.array(scales + [_GPU_OF_JOB] * len(self._gpus) + [_BATCH_OF_JOB])

    def _x(self, gpus: Sequence[Gpu], precisions: Sequence[Precision]) -> Matrix:
        keys = [(gpu.name, precision) for gpu, precision in zip(gpus, precisions, strict=True)]
        distinct = dict(zip(keys, zip(gpus, precisions, strict=True), strict=True))  # one source has thirty targets
        figures = {key: log_figures(*of) for key, of in distinct.items()}
        return np.array([figures[key] for key in keys]) - self._centre


@dataclass(frozen=True)
class _Job:
    """The rates of one job, its own coefficients integrated out.

    Attributes:
        shared, own: rows of the coefficients, shape (rates, …).
        log_speed: shape (rates,).
        gain: from log speeds to own coefficients, shape (own, rates).
        inverse: of the covariance of the log speeds given the shared coefficients, shape (rates, rates).
    """

    shared: Matrix
    own: Matrix
    log_speed: Vector
    gain: Matrix
    inverse: Matrix

    @classmethod
    def of(cls, speeds: Speeds, rates: Sequence[MeasuredRate]) -> "_Job":
        gpus, precisions = [rate.gpu for rate in rates], [rate.precision for rate in rates]
        batch = np.array([rate.log_batch for rate in rates])
        shared, own = speeds._shared(gpus, precisions, batch), speeds._own(gpus, precisions, batch)
        scales = speeds._own_scales() ** 2
        works = np.unique([rate.work for rate in rates], return_inverse=True)[1]
        noise = np.array([speeds.noise(rate.origin) ** 2 for rate in rates])
        covariance = (own * scales) @ own.T + _FLAT * (works[:, None] == works[None]) + np.diag(noise)
        inverse = cho_solve(cho_factor(covariance), np.eye(len(rates)))
        # The mean of each work is taken out first: with the flat variance it changes nothing but rounding.
        log_speed = np.array([rate.log_speed for rate in rates])
        means = np.bincount(works, log_speed) / np.bincount(works)
        return cls(shared, own, log_speed - means[works], scales[:, None] * own.T @ inverse, inverse)

    @property
    def information(self) -> Matrix:
        return self.shared.T @ self.inverse @ self.shared

    @property
    def evidence(self) -> Vector:
        return self.shared.T @ self.inverse @ self.log_speed

    def residuals(self, mean: Vector, covariance: Matrix) -> tuple[Vector, Vector]:
        """K⁻¹·y and the diagonal of K⁻¹, (rates,) each, where K is the covariance with nothing given."""
        weighted = self.inverse @ self.shared
        left = self.inverse @ self.log_speed - weighted @ mean
        return left, np.diag(self.inverse) - (weighted @ covariance * weighted).sum(axis=1)


def _measured(by_job: Mapping[str, Sequence[MeasuredRate]]) -> dict[str, dict[str, list[int]]]:
    """GPU -> precision -> numbers of the jobs that were measured there; the jobs' names stay behind."""
    jobs: dict[str, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for number, name in enumerate(sorted(by_job)):
        for rate in by_job[name]:
            jobs[rate.gpu.name][rate.precision].add(number)
    return {gpu: {precision: sorted(of) for precision, of in sorted(jobs[gpu].items())} for gpu in sorted(jobs)}


# Within a work of the origin `lambda`, where batches are as large as memory allows, the log of the batch on each GPU rises by
# 1.15 with that of its memory (384 rates; 0.94 to 1.53 by network).
_BATCH_BY_MEMORY = 1.15


def batch_growth(source: Gpu, target: Gpu) -> float:
    """How many times as large a batch as on ``source`` may be on ``target``; 1 where that has less memory."""
    return float(max(target.memory / source.memory, 1.0) ** _BATCH_BY_MEMORY)


def log_figures(gpu: Gpu, precision: Precision) -> list[float]:
    """Logs of :data:`FIGURES` of a GPU in a precision: x(g, p) before it is centred."""
    fp32 = 2.0 * gpu.cuda_cores * gpu.boost_clock
    l2 = gpu.l2_cache or _TYPICAL_L2 * gpu.sm_count
    figures = (arithmetic_rate(gpu, precision), fp32, gpu.effective_flops, gpu.memory_bandwidth, l2, gpu.sm_count, gpu.tdp)
    return [math.log(figure) for figure in figures]


# Bytes per SM, the median of the catalogue; for a custom GPU that does not give them.
_TYPICAL_L2 = 105_000


def _architecture(gpu: Gpu) -> str:
    """GPUs of one compute capability have one kind of SM."""
    return f"{gpu.compute_capability:.1f}"


def _by_precision(rows: Matrix, precisions: Sequence[Precision]) -> list[Matrix]:
    """The rows once for each precision, 0 where a row is of another."""
    held = np.array(precisions, dtype=object)
    return [rows * (held == precision)[:, None] for precision in PRECISIONS]


def _column(batch: Vector | None, rows: int) -> Matrix:
    return np.zeros((rows, 1)) if batch is None else batch[:, None]


def _one_hot(names: Sequence[str], known: dict[str, int]) -> Matrix:
    """A column for each known name; none for another."""
    rows = np.zeros((len(names), len(known)))
    for row, name in enumerate(names):
        if name in known:
            rows[row, known[name]] = 1.0
    return rows
