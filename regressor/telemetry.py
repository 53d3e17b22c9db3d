"""What telemetry shows of jobs like those that were recorded with it: a Gaussian process and CatBoost beside it.

Both learn the log ratio that a ridge on the same jobs' rates of busy time leaves, from how busy the GPU and its memory were,
power and clock; the share of memory traffic matters most (../shared/research/latency_model.md, "Telemetry"). One process
answers all pairs of GPUs:

    covariance = a²·(1 + k(φ, φ'))·([same source and target] + ([same source] + [same target] + x·x'/7)/10)

with k a Matérn 5/2 kernel of the source's statistics φ and x the log ratios of the data sheets, so that pairs of GPUs that were
recorded have their own rows, and a new GPU those of GPUs like it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.spatial.distance import cdist

from epochcast.regressor.boosting import SHARE, array_of, boosted, model_of
from epochcast.regressor.features import busy_at_least
from epochcast.regressor.gpus import Gpu
from epochcast.regressor.pairs import Pair, actual_ratio, at, gpu_names
from epochcast.regressor.precision import KIND, Precision, likely_precisions
from epochcast.regressor.profile import Profile
from epochcast.regressor.ridge import BlockedRidge, MeasuredRate, Ratios, Work, log_figures

Matrix = NDArray[np.float64]

METRICS = ("gpu_utilization", "memory_utilization", "power", "sm_clock")
"""What a profile must have; ``power_average`` counts as power."""

# Standard deviations of the process and of one ratio in log seconds, and the share of what pairs of GPUs have in common:
# chosen on the visible folds of cloud-hw-trainpred.
_AMPLITUDE, _NOISE, _COMMON = 0.2, 0.04, 0.1

# Rounds of the outliers' weights, the leave-one-out residual in robust standard deviations at which a row counts half, and the
# standard deviation of a normal distribution per median absolute deviation.
_REWEIGHTINGS, _OUTLIER, _NORMAL_MAD = 4, 3.0, 1.4826

# The process takes so many rows of a larger corpus, chosen at random: its time grows with their cube. By choice.
_MOST_ROWS = 2000
# Keeps matrices positive definite. By choice.
_JITTER = 1e-6

# Logits of utilisations stay finite: nvidia-smi reads whole percents, half of one is its resolution.
_HALF_PERCENT = 0.005


class TelemetryModel:
    """The fitted process and trees.

    Attributes:
        gpus: that were recorded.
        kinds: of arithmetic among the profiles; FP32 code teaches nothing about half precision.
        types: of the jobs.
        workloads: "source to target" -> how many were recorded on both.
    """

    def fit(self, pairs: Sequence[Pair], rates: Sequence[MeasuredRate], iterations: int) -> Self:
        """Fit on measured pairs with telemetry (:func:`has_telemetry`) and the rates at their ends, of busy time.

        ``iterations``: trees of CatBoost.
        """
        self._ridge = BlockedRidge().fit([rate._replace(log_rate=rate.log_rate - _roofline(rate.gpu)) for rate in rates])
        sources, targets = gpu_names(pairs)
        self.gpus = sorted({*sources.tolist(), *targets.tolist()})
        likely = {name for pair in pairs for name in likely_precisions(pair.source, pair.source_gpu)[0]}
        self.kinds = sorted({KIND[precision] for precision in likely})
        self.types = sorted({pair.source.type for pair in pairs if pair.source.type})
        self.workloads = _counts(pairs)
        raw, change = statistics_of(pairs), sheet_change(pairs)
        self._centre, spread = raw.mean(axis=0), raw.std(axis=0)
        self._spread = np.where(spread > 0, spread, 1.0)
        self._sheet = np.where((of := np.sqrt((change**2).mean(axis=0))) > 0, of, 1.0)
        rest = np.log(actual_ratio(pairs)) - self._base(pairs)
        few = np.arange(len(pairs))
        if len(pairs) > _MOST_ROWS:
            few = np.random.default_rng(0).choice(few, _MOST_ROWS, replace=False)
        weights = np.ones(len(pairs))
        weights[few] = self._fit_process(at(pairs, few), rest[few])
        self._trees = boosted(self._rows(pairs), rest, weights, iterations)
        return self

    def covers(self, profile: Profile, precision: Precision) -> bool:
        """Whether jobs of this arithmetic and type were recorded; an unknown type counts as theirs."""
        return KIND[precision] in self.kinds and (profile.type is None or profile.type in self.types)

    def compare(self, pairs: Sequence[Pair], precision: Precision | None = None) -> Ratios:
        """Log of target over source seconds, and its variance with that of single measurements, shape (n,) each.

        ``precision``: of the jobs, each one's likeliest unless given.
        """
        X, (sources, targets), change = self._scaled(pairs), gpu_names(pairs), sheet_change(pairs) / self._sheet
        cross = self._covariance(X, sources, targets, change)
        seen = _same(sources, self._sources) * _same(targets, self._targets)
        own = 1 + 2 * _COMMON + _COMMON * (change**2).mean(axis=1)
        known = (solve_triangular(self._factor, cross.T, lower=True) ** 2).sum(axis=0)
        variance = np.maximum(2 * _AMPLITUDE**2 * own - known, 0.0)
        # The part of a pair's own is no part of a pair of GPUs that nobody recorded: the others stand for it.
        variance = np.where(seen.any(axis=1), variance, np.maximum(variance - 2 * _AMPLITUDE**2 * (1 - _COMMON), 0.0))
        mean = (1 - SHARE) * cross @ self._coefficients + SHARE * self._trees.predict(
            self._rows(pairs, precision), thread_count=1
        )
        return Ratios(self._base(pairs, precision) + mean, variance + 2 * _NOISE**2)

    def _fit_process(self, pairs: Sequence[Pair], rest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Fit on inducing points, none of them a row, so that a saved process is not its data; returns the rows' weights.

        The predictor is equation 20 of Quiñonero-Candela and Rasmussen 2005. A row whose leave-one-out residual (Rasmussen and
        Williams 2006, equation 5.12) is large counts less, by the weights of a Cauchy likelihood: a stalled run must not bend
        its neighbours.
        """
        X, (sources, targets), change = self._scaled(pairs), gpu_names(pairs), sheet_change(pairs) / self._sheet
        self._points, self._sources, self._targets, self._changes = X, sources, targets, change
        kernel, weights = self._covariance(X, sources, targets, change), np.ones(len(X))
        for _ in range(_REWEIGHTINGS if len(X) > 2 else 0):
            inverse = np.linalg.inv(kernel + np.diag(_NOISE**2 / weights))
            residual = inverse @ rest / np.diag(inverse)
            if not (typical := _NORMAL_MAD * np.median(np.abs(residual))):
                break
            weights = 1 / (1 + (residual / (_OUTLIER * typical)) ** 2)
        middles = []
        for names in sorted(set(zip(sources.tolist(), targets.tolist(), strict=True))):
            rows = np.flatnonzero((sources == names[0]) & (targets == names[1]))
            middles += [(middle, rows[0]) for middle in _midpoints(X[rows])]
        row = np.array([row for _, row in middles])
        self._points = np.array([middle for middle, _ in middles])
        self._sources, self._targets, self._changes = sources[row], targets[row], change[row]
        self._factor_points()
        cross = self._covariance(X, sources, targets, change).T
        inner = self._own() + (cross * weights / _NOISE**2) @ cross.T
        inner[np.diag_indices_from(inner)] += _JITTER * np.trace(inner) / len(inner)
        self._coefficients = cho_solve(cho_factor(inner), (cross * weights / _NOISE**2) @ rest)
        return weights

    def _own(self) -> Matrix:
        own: Matrix = self._covariance(self._points, self._sources, self._targets, self._changes)
        return own

    def _factor_points(self) -> None:
        own = self._own()
        own[np.diag_indices_from(own)] += _JITTER
        self._factor = np.linalg.cholesky(own)

    def _covariance(self, X: Matrix, sources: NDArray[np.str_], targets: NDArray[np.str_], change: Matrix) -> Matrix:
        """Between rows and the points, shape (n, points)."""
        distance = np.sqrt(5 / X.shape[1]) * cdist(X, self._points)
        alike = (1 + distance + distance**2 / 3) * np.exp(-distance)
        source, target = _same(sources, self._sources), _same(targets, self._targets)
        sheets = change @ self._changes.T / change.shape[1]
        covariance: Matrix = _AMPLITUDE**2 * (1 + alike) * (source * target + _COMMON * (source + target + sheets))
        return covariance

    def _scaled(self, pairs: Sequence[Pair]) -> Matrix:
        scaled: Matrix = (statistics_of(pairs) - self._centre) / self._spread
        return scaled

    def _rows(self, pairs: Sequence[Pair], precision: Precision | None = None) -> Matrix:
        """What the trees read: the statistics, the change of the data sheet, and the ridge's answer."""
        return np.column_stack([statistics_of(pairs), sheet_change(pairs), self._base(pairs, precision)])

    def _base(self, pairs: Sequence[Pair], precision: Precision | None = None) -> NDArray[np.float64]:
        """Log ratios of any job that is as busy: its idle time stays, and the rest goes with the GPUs; shape (n,)."""
        likely = [likely_precisions(pair.source, pair.source_gpu)[0] for pair in pairs]
        works = [Work(max(shares, key=shares.__getitem__) if precision is None else precision) for shares in likely]
        sources, targets = [pair.source_gpu for pair in pairs], [pair.target_gpu for pair in pairs]
        sheet = [_roofline(source) - _roofline(target) for source, target in zip(sources, targets, strict=True)]
        busy = np.array([busy_at_least(pair.source) for pair in pairs])
        base: NDArray[np.float64] = np.log1p(busy * np.expm1(sheet + self._ridge.compare(sources, targets, works).mean))
        return base

    def state(self) -> dict[str, Any]:
        """What was learnt."""
        learnt = {name: value for name, value in vars(self).items() if name != "_factor"}
        return learnt | {"_ridge": self._ridge.state(), "_trees": array_of(self._trees)}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The model of :meth:`state`."""
        model = cls()
        vars(model).update(state, _ridge=BlockedRidge.restored(state["_ridge"]), _trees=model_of(state["_trees"]))
        model._factor_points()
        return model


def has_telemetry(profile: Profile) -> bool:
    """Whether a profile has the metrics that telemetry is learnt from."""
    held = set(profile.metrics) | ({"power"} if "power_average" in profile.metrics else set())
    return held.issuperset(METRICS)


def statistics_of(pairs: Sequence[Pair]) -> Matrix:
    """What carries over between GPUs of the telemetry of each source, shape (n, 15)."""
    rows: dict[tuple[int, str], list[float]] = {}
    for pair in pairs:
        key = (id(pair.source), pair.source_gpu.name)  # a profile paired with fifty GPUs is read once
        if key not in rows:
            rows[key] = _statistics(pair)
    return np.array([rows[id(pair.source), pair.source_gpu.name] for pair in pairs], dtype=np.float64).reshape(len(pairs), 15)


def _statistics(pair: Pair) -> list[float]:
    metrics, gpu = pair.source.metrics, pair.source_gpu
    busy, memory, power = metrics["gpu_utilization"], metrics["memory_utilization"], metrics.get("power")
    power = metrics["power_average"] if power is None else power
    shares = [value for of in (busy, memory) for value in (of["mean"], of["std"], of["p50"], of["max"], _logit(of["mean"]))]
    # One of nvidia-smi's whole percents, so that idle GPUs have a ratio.
    traffic = float(np.log((memory["mean"] + 0.01) / (busy["mean"] + 0.01)))
    watts = [power[name] / gpu.tdp for name in ("mean", "std", "max")]
    return [*shares, traffic, *watts, metrics["sm_clock"]["mean"] / gpu.boost_clock]


def _logit(share: float) -> float:
    clipped = float(np.clip(share, _HALF_PERCENT, 1 - _HALF_PERCENT))
    return float(np.log(clipped / (1 - clipped)))


def sheet_change(pairs: Sequence[Pair]) -> Matrix:
    """Logs of the source's figures over the target's, of FP32 code, shape (n, 7)."""
    figures = {gpu.name: log_figures(gpu, "tf32") for pair in pairs for gpu in (pair.source_gpu, pair.target_gpu)}
    rows = [np.subtract(figures[pair.source_gpu.name], figures[pair.target_gpu.name]) for pair in pairs]
    return np.array(rows, dtype=np.float64).reshape(len(pairs), 7)


def _roofline(gpu: Gpu) -> float:
    """Log rate before any measurement, half arithmetic, half memory traffic: three GPUs say too little of a fourth."""
    return float(np.log(gpu.effective_flops * gpu.memory_bandwidth)) / 2


def _counts(pairs: Sequence[Pair]) -> dict[str, int]:
    seen: dict[str, set[str | None]] = defaultdict(set)
    for pair in pairs:
        seen[" to ".join(pair.gpus)].add(pair.source.workload)
    return {gpus: len(workloads) for gpus, workloads in sorted(seen.items())}


def _same(ours: NDArray[np.str_], theirs: NDArray[np.str_]) -> Matrix:
    codes = {name: code for code, name in enumerate({*ours.tolist(), *theirs.tolist()})}  # texts compare slowly
    left, right = (np.array([codes[name] for name in names.tolist()]) for names in (ours, theirs))
    same: NDArray[np.bool_] = left[:, None] == right[None]
    return same.astype(np.float64)


def _midpoints(rows: Matrix) -> Matrix:
    """Mean of each row and its nearest neighbour, each once; a row that all others equal is its own."""
    distinct = np.unique(rows, axis=0)  # the nearest neighbour of a repeated row would be the row itself
    if len(distinct) == 1:
        return distinct
    distance = cdist(distinct, distinct)
    np.fill_diagonal(distance, np.inf)
    return np.unique((distinct + distinct[distance.argmin(axis=1)]) / 2, axis=0)
