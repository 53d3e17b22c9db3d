"""What telemetry adds to measured speeds: Gaussian processes per pair of GPUs and trees, on the errors of the speeds."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import GroupKFold

from epochcast.regressor.answers import Answers
from epochcast.regressor.arrays import Arrays, part, under
from epochcast.regressor.derived import SourceFeatures, static_features, usable_metrics
from epochcast.regressor.errors import InputError
from epochcast.regressor.features import BUSY
from epochcast.regressor.gpu_range import GpuRange
from epochcast.regressor.imputation import NormalImputer
from epochcast.regressor.inducing_gp import InducingGaussianProcess, PairProcesses
from epochcast.regressor.pairs import Pair, actual_ratio, gpu_names
from epochcast.regressor.precision import arithmetic_kind, share_of_kinds
from epochcast.regressor.profile import Profile
from epochcast.regressor.trees import Trees

# Measured on both sides, source and target each bring their noise.
_FLOOR = 2 * InducingGaussianProcess().noise ** 2
SCALE_FLOOR = _FLOOR**0.5
"""The smallest scale of a corrected answer."""
# What a GPU adds that training has not seen, in the unit of the processes' prior variance: errors there are about twice those
# between known GPUs, and depend little on how well the profile is known. By choice (decision 0014).
_NEW_GPU = 0.25
# Beyond this percentile of what left-out models show, a profile counts as unlike the training profiles. The correction helps
# left-out models on the whole range: at 95 instead of 99 their error is 0.06 points larger.
_INSIDE = 99


class PairSeen(NamedTuple):
    """A pair of GPUs in training: how many workloads, and the smallest and largest log ratio measured."""

    workloads: int
    low: float
    high: float


def has_telemetry(profile: Profile) -> bool:
    """Whether an activity metric and another metric next to it are there; how busy a GPU was is in the speeds already."""
    held = usable_metrics(profile)
    return len(held) > 1 and bool(held & set(BUSY))


class TelemetryCorrection:
    """Learnt from pairs whose source profile :func:`has_telemetry` (decision 0013).

    Args:
        forest_share: weight of the trees next to the processes.
        residual_step: how much of what the trees learnt a GPU gets that was never measured.

    Attributes:
        features_: the source features in use, and what was excluded.
        kinds_: kinds of arithmetic among the training profiles; FP32 code teaches nothing about half precision.
        pairs_seen_: (source GPU, target GPU) -> workloads measured on both, and the range of their log ratios.
        gpu_range_: the range of data sheets among the training GPUs.
        support_bound_: how unknown a profile may be and still count as inside the training support.
    """

    def __init__(self, forest_share: float, residual_step: float) -> None:
        self.forest_share = forest_share
        self.residual_step = residual_step

    def fit(self, pairs: Sequence[Pair], base: NDArray[np.float64], forest: ExtraTreesRegressor) -> Self:
        """Fit on measured pairs with telemetry and the speeds' answers for them, log ratios of shape (n,).

        Raises:
            InputError: no activity metric that all of the pairs hold varies between them.
        """
        self.features_ = SourceFeatures.choose(pairs)
        if not set(BUSY) & set(self.features_.metrics) or not self.features_.columns:
            raise InputError(
                f"nothing can be learnt from these {len(pairs)} training pairs: no activity metric ({', '.join(BUSY)}) that "
                "is present in all of them varies between them; record more workloads with the same metrics"
            )
        sources, targets = gpu_names(pairs)
        X, residual = self.features_.matrix(pairs), np.log(actual_ratio(pairs)) - base
        self.kinds_ = frozenset(arithmetic_kind(pair.source, pair.source_gpu) for pair in pairs)
        self.pairs_seen_ = _pairs_seen(pairs)
        self.gpu_range_ = GpuRange.of([gpu for pair in pairs for gpu in (pair.source_gpu, pair.target_gpu)])
        self.mean_, deviation = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.imputer_ = NormalImputer.fit(X, sources)
        scaled = (X - self.mean_) / self.scale_
        self.processes_, weights = PairProcesses.fit(scaled, residual, sources, targets)
        self.support_bound_ = _support_bound(scaled, residual, sources, targets, _groups(pairs))
        self.forest_ = Trees.of_forest(forest.fit(np.c_[X, static_features(pairs)], residual, sample_weight=weights))
        return self

    def applies(self, pairs: Sequence[Pair], measured: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which pairs it corrects, shape (n,).

        Args:
            pairs: the questions.
            measured: where jobs were measured on both GPUs, without telemetry or with; shape (n,). Such a pair of GPUs without
                a process is better known by these jobs than by trees that saw other GPUs.
        """
        return np.array(
            [
                self._share(pair) > 0 and (pair.gpus in self.processes_ or not (known or self.missing(pair.source)))
                if set(BUSY) & usable_metrics(pair.source) & set(self.features_.metrics)
                else False
                for pair, known in zip(pairs, measured.tolist(), strict=True)
            ],
            dtype=bool,
        )

    def correct(self, pairs: Sequence[Pair], base: Answers) -> Answers:
        """Correct the speeds' answers to pairs that it applies to.

        Where the job's arithmetic may be of a kind that training has not seen, the correction counts by how likely the others
        are, and route and scale stay those of the speeds.
        """
        sources, targets = gpu_names(pairs)
        X = self.imputer_.fill(self.features_.matrix(pairs), sources)
        smooth, unknown = self.processes_.predict((X - self.mean_) / self.scale_, sources, targets)
        trees = self.forest_.predict(np.c_[X, static_features(pairs)])
        routes = np.array([self._route(pair) for pair in pairs])
        both = (1 - self.forest_share) * smooth + self.forest_share * trees
        correction = np.where(routes == "residual", self.residual_step * trees, both)
        inside = np.clip((1 - unknown) / (1 - self.support_bound_), 0, 1)
        support = inside * self.gpu_range_.support(pairs)
        share = np.array([self._share(pair) for pair in pairs])
        log_ratio = base.log_ratio + share * support * correction
        scale = np.sqrt(_FLOOR + unknown + np.where(routes == "residual", _NEW_GPU, 0.0)) * (1 + self.gpu_range_.beyond(pairs))
        certain = share == 1
        return replace(
            base,
            log_ratio=np.where(certain, self._clipped(log_ratio, pairs), log_ratio),
            scale=np.where(certain, scale, base.scale),
            support=np.where(certain, support, base.support),
            routes=np.where(certain, routes, base.routes),
        )

    @property
    def gpus(self) -> list[str]:
        """Those that were measured with telemetry."""
        return sorted({gpu for names in self.pairs_seen_ for gpu in names})

    def missing(self, profile: Profile) -> list[str]:
        """The metrics of training that a profile lacks."""
        return sorted(set(self.features_.metrics) - usable_metrics(profile))

    def _share(self, pair: Pair) -> float:
        return share_of_kinds(self.kinds_, pair.source, pair.source_gpu)

    def _route(self, pair: Pair) -> str:
        if pair.gpus not in self.processes_:
            return "residual"
        return "incomplete" if self.missing(pair.source) else "ensemble"

    def _clipped(self, log_ratio: NDArray[np.float64], pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Hold each pair of GPUs with a process to the range of its measured ratios: no extrapolation beyond what was observed.

        Fewer workloads than a process needs show little of the range.
        """
        anything = PairSeen(0, -np.inf, np.inf)
        seen = [self.pairs_seen_[pair.gpus] if pair.gpus in self.processes_ else anything for pair in pairs]
        return np.clip(log_ratio, [pair.low for pair in seen], [pair.high for pair in seen])

    def state(self) -> dict[str, Any]:
        """Return what was learnt, but for the arrays, as JSON values."""
        return {
            "metrics": list(self.features_.metrics),
            "columns": list(self.features_.columns),
            "excluded": dict(self.features_.excluded),
            "kinds": sorted(self.kinds_),
            "pairs_seen": [[*names, *seen] for names, seen in self.pairs_seen_.items()],
            "processes": [list(names) for names in self.processes_.names],
            "gpu_range": {figure: list(limits) for figure, limits in self.gpu_range_.limits.items()},
            "support_bound": self.support_bound_,
            "sources": self.imputer_.gpus,
        }

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the fitted arrays; :meth:`state` is the caller's to keep next to them."""
        columns = {
            "mean": self.mean_,
            "scale": self.scale_,
            "source_means": self.imputer_.means,
            "covariance": self.imputer_.covariance,
        }
        parts = {"forest": self.forest_.arrays(), "processes": self.processes_.arrays(), "columns": columns}
        return {name: array for key, arrays in parts.items() for name, array in under(key, arrays).items()}

    def restore(self, state: Mapping[str, Any], arrays: Arrays) -> Self:
        """Take :meth:`state` and :meth:`arrays`."""
        self.features_ = SourceFeatures(tuple(state["metrics"]), tuple(state["columns"]), state["excluded"])
        self.kinds_ = frozenset(state["kinds"])
        self.pairs_seen_ = {(source, target): PairSeen(*seen) for source, target, *seen in state["pairs_seen"]}
        self.gpu_range_ = GpuRange({figure: (low, high) for figure, (low, high) in state["gpu_range"].items()})
        self.support_bound_ = state["support_bound"]
        columns = part(arrays, "columns")
        self.mean_, self.scale_ = columns["mean"], columns["scale"]
        self.imputer_ = NormalImputer(list(state["sources"]), columns["source_means"], columns["covariance"])
        self.processes_ = PairProcesses.restored([tuple(names) for names in state["processes"]], arrays)
        self.forest_ = Trees.of_arrays(arrays, "forest")
        return self


def _pairs_seen(pairs: Sequence[Pair]) -> dict[tuple[str, str], PairSeen]:
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    workloads: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for pair, log_ratio in zip(pairs, np.log(actual_ratio(pairs)).tolist(), strict=True):
        ratios[pair.gpus].append(log_ratio)
        workloads[pair.gpus].add(pair.source.workload)
    return {
        names: PairSeen(len(workloads[names]), _outward(min(seen), -1), _outward(max(seen), 1))
        for names, seen in sorted(ratios.items())
    }


def _outward(log_ratio: float, sign: int) -> float:
    """The next twentieth, by choice: a bound in a model file must not be a single measurement."""
    return sign * math.ceil(20 * sign * log_ratio) / 20


def _groups(pairs: Sequence[Pair]) -> list[str]:
    """What must leave together: the architecture, or the workload where it is not known."""
    return [pair.source.group or pair.source.workload or str(number) for number, pair in enumerate(pairs)]


def _support_bound(
    X: NDArray[np.float64], y: NDArray[np.float64], sources: NDArray[np.str_], targets: NDArray[np.str_], groups: list[str]
) -> float:
    """How unknown the profiles of a left-out group are to processes fitted on the others, at the percentile ``_INSIDE``.

    Folds, what a single group gets, and the most, which leaves the correction a range to fade over, are by choice.
    """
    folds = min(len(set(groups)), 10)
    if folds < 2:
        return 0.5
    unknown = np.empty(len(X))
    for train, test in GroupKFold(folds).split(X, groups=groups):
        processes, _ = PairProcesses.fit(X[train], y[train], sources[train], targets[train])
        unknown[test] = processes.predict(X[test], sources[test], targets[test])[1]
    return float(min(np.percentile(unknown, _INSIDE), 0.9))
