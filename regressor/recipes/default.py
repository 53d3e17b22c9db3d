"""The recipe behind every answer: what was learnt of log(target/source), and a prior where training data end."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import GroupKFold
from sklearn.utils.validation import check_is_fitted

from ..answers import Answers
from ..arrays import Shape, load_arrays, save_arrays
from ..derived import STATIC_COLUMNS, SourceFeatures, static_features, usable_metrics
from ..errors import InputError
from ..features import BUSY, busy_share, prior_log_ratio
from ..forest import Forest
from ..gpu_range import GpuRange
from ..imputation import NormalImputer
from ..inducing_gp import InducingGaussianProcess
from ..pair_processes import PairProcesses
from ..pairs import Pair, actual_ratio, origins, source_seconds

Route = Literal["ensemble", "incomplete", "residual", "prior", "specifications"]
"""How a pair is answered, from most evidence to least:

- ``ensemble``: both GPUs were paired in training: the process of that pair, and trees.
- ``incomplete``: the same, with metrics that the profile lacks filled by what the others let expect.
- ``residual``: a GPU is new: the prior, corrected by part of what trees learnt about its error on other GPUs.
- ``prior``: a GPU is new and metrics are missing: the prior alone.
- ``specifications``: no activity metric at all: the prior with a busy share of 1, which is a ratio of data sheets.
"""

FOREST_FILE, PROCESSES_FILE, COLUMNS_FILE = "forest.npz", "processes.npz", "columns.npz"
FILES = (FOREST_FILE, PROCESSES_FILE, COLUMNS_FILE)

# Measured on both sides, source and target each bring their noise.
_FLOOR = 2 * InducingGaussianProcess().noise ** 2
SCALE_FLOOR = _FLOOR**0.5
"""The smallest scale of an answer that was learnt."""
# What a GPU adds that training has not seen, in the unit of the processes' prior variance: errors there are about twice those
# between known GPUs, and depend little on how well the profile is known.
_NEW_GPU = 0.25
# Beyond this percentile of what left-out models show, a profile counts as unlike the training profiles. The correction helps
# left-out models on the whole range: at 95 instead of 99 their error is 0.06 points larger.
_INSIDE = 99


class PairSeen(NamedTuple):
    """A pair of GPUs in training: how many workloads, and the smallest and largest log ratio measured."""

    workloads: int
    low: float
    high: float


class DefaultRecipe(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian processes per pair of GPUs and trees, both on the prior's error (docs/decisions/0013).

    Args:
        trees: extra trees.
        min_samples_leaf: 2 keeps every leaf an average, so that no training row's latency stands in a model file.
        forest_share: weight of the trees beside the processes.
        residual_step: how much of what the trees learnt a new GPU gets; half, fixed a priori.
        random_state: seed of the trees.

    Attributes:
        features_: the source features in use, and what was excluded.
        pairs_seen_: (source GPU, target GPU) -> workloads measured on both, and the range of their log ratios.
        gpu_range_: the range of data sheets among the training GPUs.
        support_bound_: how unknown a profile may be and still count as inside the training support.
    """

    def __init__(
        self,
        trees: int = 200,
        min_samples_leaf: int = 2,
        forest_share: float = 1 / 3,
        residual_step: float = 0.5,
        random_state: int = 0,
    ) -> None:
        self.trees = trees
        self.min_samples_leaf = min_samples_leaf
        self.forest_share = forest_share
        self.residual_step = residual_step
        self.random_state = random_state

    def fit(self, pairs: Sequence[Pair], y: None = None) -> Self:
        """Fit on the measured pairs whose source profile holds an activity metric.

        Raises:
            InputError: fewer than two pairs hold one, a pair is not measured, or no feature varies.
        """
        usable = [pair for pair in pairs if set(BUSY) & set(pair.source.metrics)]
        if len(usable) < 2:
            raise InputError(
                f"{len(usable)} of {len(pairs)} training pairs hold an activity metric ({', '.join(BUSY)}); "
                "at least 2 are needed; latencies alone are for recipe 'latency-only' of `epochcast evaluate regressor`"
            )
        self.features_ = SourceFeatures.choose(usable)
        if not set(BUSY) & set(self.features_.metrics) or not self.features_.columns:
            raise InputError(
                f"nothing can be learnt from these {len(usable)} training pairs: no activity metric ({', '.join(BUSY)}) that "
                "all of them hold varies between them; record more workloads with the same metrics"
            )
        sources, targets = _names(usable)
        X, residual = self.features_.matrix(usable), np.log(actual_ratio(usable)) - prior_log_ratio(usable)
        self.pairs_seen_ = _pairs_seen(usable)
        self.gpu_range_ = GpuRange.of([gpu for pair in usable for gpu in (pair.source_gpu, pair.target_gpu)])
        self.mean_, deviation = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.imputer_ = NormalImputer.fit(X, sources)
        scaled = (X - self.mean_) / self.scale_
        self.processes_, weights = PairProcesses.fit(scaled, residual, sources, targets)
        self.support_bound_ = _support_bound(scaled, residual, sources, targets, _groups(usable))
        model = ExtraTreesRegressor(self.trees, min_samples_leaf=self.min_samples_leaf, random_state=self.random_state)
        self.forest_ = Forest.from_sklearn(model.fit(np.c_[X, static_features(usable)], residual, sample_weight=weights))
        return self

    def answer(self, pairs: Sequence[Pair]) -> Answers:
        """Answer each pair with its route, scale and support; needs no epoch seconds."""
        check_is_fitted(self, "features_")
        log_ratio = prior_log_ratio(pairs)
        scale, support = np.ones(len(pairs)), np.zeros(len(pairs))  # the prior alone is answered by nothing that was learnt
        routes = np.array([self._route(pair) for pair in pairs], dtype="<U14")
        sources, targets = _names(pairs)
        beyond = self.gpu_range_.beyond(pairs)
        learnt = np.flatnonzero(np.isin(routes, ("ensemble", "incomplete", "residual")))
        if learnt.size:
            asked = [pairs[row] for row in learnt.tolist()]
            X = self.imputer_.fill(self.features_.matrix(asked), sources[learnt])
            smooth, unknown = self.processes_.predict((X - self.mean_) / self.scale_, sources[learnt], targets[learnt])
            trees = self.forest_.predict(np.c_[X, static_features(asked)])
            both = (1 - self.forest_share) * smooth + self.forest_share * trees
            correction = np.where(routes[learnt] == "residual", self.residual_step * trees, both)
            inside = np.clip((1 - unknown) / (1 - self.support_bound_), 0, 1)
            support[learnt] = inside * self.gpu_range_.support(asked)
            log_ratio[learnt] += support[learnt] * correction
            new = np.where(routes[learnt] == "residual", _NEW_GPU, 0.0)
            scale[learnt] = np.sqrt(_FLOOR + unknown + new)
        log_ratio = self._clipped(log_ratio, sources, targets)
        return Answers(log_ratio, scale * (1 + beyond), support, routes, sources, origins(pairs))

    def _clipped(
        self, log_ratio: NDArray[np.float64], sources: NDArray[np.str_], targets: NDArray[np.str_]
    ) -> NDArray[np.float64]:
        """Hold each pair of GPUs with a process to the range of its measured ratios: no extrapolation beyond what was observed.

        Fewer workloads than a process needs say little of the range.
        """
        anything = PairSeen(0, -np.inf, np.inf)
        asked = zip(sources.tolist(), targets.tolist(), strict=True)
        seen = [self.pairs_seen_[names] if names in self.processes_ else anything for names in asked]
        return np.clip(log_ratio, [one.low for one in seen], [one.high for one in seen])

    def _route(self, pair: Pair) -> Route:
        if busy_share(pair.source)[1] is None:
            return "specifications"
        held = usable_metrics(pair.source)
        seen = (pair.source_gpu.name, pair.target_gpu.name) in self.processes_
        if held >= set(self.features_.metrics):
            return "ensemble" if seen else "residual"
        return "incomplete" if seen and held & set(BUSY) & set(self.features_.metrics) else "prior"

    def predict(self, pairs: Sequence[Pair]) -> NDArray[np.float64]:
        """Return seconds on the target, shape (n,)."""
        seconds: NDArray[np.float64] = source_seconds(pairs) * np.exp(self.answer(pairs).log_ratio)
        return seconds

    def state(self) -> dict[str, Any]:
        """Return what was learnt, but for the arrays, as JSON values."""
        check_is_fitted(self, "features_")
        return {
            "metrics": list(self.features_.metrics),
            "columns": list(self.features_.columns),
            "excluded": dict(self.features_.excluded),
            "pairs_seen": [[*names, *seen] for names, seen in self.pairs_seen_.items()],
            "processes": [list(names) for names in self.processes_.names],
            "gpu_range": {figure: list(limits) for figure, limits in self.gpu_range_.limits.items()},
            "support_bound": self.support_bound_,
            "sources": self.imputer_.gpus,
        }

    def save(self, folder: Path) -> None:
        """Write the fitted arrays into an existing folder; :meth:`get_params` and :meth:`state` are the caller's to keep."""
        self.forest_.save(folder / FOREST_FILE)
        self.processes_.save(folder / PROCESSES_FILE)
        columns = {
            "mean": self.mean_,
            "scale": self.scale_,
            "source_means": self.imputer_.means,
            "covariance": self.imputer_.covariance,
        }
        save_arrays(folder / COLUMNS_FILE, columns)

    def load(self, folder: Path, state: Mapping[str, Any]) -> Self:
        """Read what :meth:`save` wrote beside the checked :meth:`state`; nothing is unpickled.

        Raises:
            InputError: a file is missing or not what it should be.
        """
        self.features_ = SourceFeatures(tuple(state["metrics"]), tuple(state["columns"]), state["excluded"])
        self.pairs_seen_ = {(source, target): PairSeen(*seen) for source, target, *seen in state["pairs_seen"]}
        self.gpu_range_ = GpuRange({figure: (low, high) for figure, (low, high) in state["gpu_range"].items()})
        self.support_bound_ = state["support_bound"]
        features, sources = len(self.features_.columns), list(state["sources"])
        spec: dict[str, tuple[DTypeLike, Shape]] = {
            "mean": (np.float64, (features,)),
            "scale": (np.float64, (features,)),
            "source_means": (np.float64, (len(sources), features)),
            "covariance": (np.float64, (features, features)),
        }
        self.mean_, self.scale_, means, covariance = load_arrays(folder / COLUMNS_FILE, spec).values()
        self.imputer_ = NormalImputer(sources, means, covariance)
        if not ((self.scale_ > 0).all() and self.imputer_.is_sound()):
            raise InputError(f"the arrays in {COLUMNS_FILE} are not sound; train the model anew")
        self.processes_ = PairProcesses.load(folder / PROCESSES_FILE, [tuple(names) for names in state["processes"]], features)
        self.forest_ = Forest.load(folder / FOREST_FILE, features=features + len(STATIC_COLUMNS))
        return self


def _pairs_seen(pairs: Sequence[Pair]) -> dict[tuple[str, str], PairSeen]:
    ratios: dict[tuple[str, str], list[float]] = defaultdict(list)
    workloads: dict[tuple[str, str], set[str | None]] = defaultdict(set)
    for pair, log_ratio in zip(pairs, np.log(actual_ratio(pairs)).tolist(), strict=True):
        names = pair.source_gpu.name, pair.target_gpu.name
        ratios[names].append(log_ratio)
        workloads[names].add(pair.source.workload)
    return {
        names: PairSeen(len(workloads[names]), _outward(min(seen), -1), _outward(max(seen), 1))
        for names, seen in sorted(ratios.items())
    }


def _outward(log_ratio: float, sign: int) -> float:
    """The next twentieth: a bound in a model file must not be a single measurement."""
    return sign * math.ceil(20 * sign * log_ratio) / 20


def _names(pairs: Sequence[Pair]) -> tuple[NDArray[np.str_], NDArray[np.str_]]:
    return np.array([pair.source_gpu.name for pair in pairs]), np.array([pair.target_gpu.name for pair in pairs])


def _groups(pairs: Sequence[Pair]) -> list[str]:
    """What must leave together: the architecture, or the workload where it is not known."""
    return [pair.source.group or pair.source.workload or str(number) for number, pair in enumerate(pairs)]


def _support_bound(
    X: NDArray[np.float64], y: NDArray[np.float64], sources: NDArray[np.str_], targets: NDArray[np.str_], groups: list[str]
) -> float:
    """How unknown the profiles of a left-out group are to processes fitted on the others, at the percentile ``_INSIDE``."""
    folds = min(len(set(groups)), 10)
    if folds < 2:
        return 0.5
    unknown = np.empty(len(X))
    for train, test in GroupKFold(folds).split(X, groups=groups):
        processes, _ = PairProcesses.fit(X[train], y[train], sources[train], targets[train])
        unknown[test] = processes.predict(X[test], sources[test], targets[test])[1]
    return float(min(np.percentile(unknown, _INSIDE), 0.9))
