"""Calibration: a few workloads measured on a new GPU correct the answers into and out of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.gaussian_process.kernels import Matern

from epochcast.regressor.answers import Answers
from epochcast.regressor.errors import InputError
from epochcast.regressor.pairs import Pair, actual_ratio, at
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.telemetry import has_telemetry, statistics_of

ROUTE = "calibrated"
"""The route of an answer that anchors corrected."""

FEWEST = 3
"""Anchor workloads that a calibration needs; with one or two picked at random answers get worse (decision 0015)."""

MOST_PAIRS = 1000
"""Measured pairs that a calibration takes: its cost grows with their cube. By choice."""

# Standard deviations in log seconds, fixed a priori from the size of a recipe's errors on GPUs that it has not seen: of the
# error that every answer about the GPU shares, of what jobs share the more, the more alike their telemetry is, of the GPU at
# the other end; and of the noise that all pairs of a workload share, and of one pair (decision 0015).
_COMMON, _SMOOTH, _PER_GPU = 0.10, 0.10, 0.05
_PER_WORKLOAD, _PER_PAIR = 0.05, 0.04
_PRIOR = (_COMMON**2 + _SMOOTH**2 + _PER_GPU**2 + _PER_WORKLOAD**2 + _PER_PAIR**2) ** 0.5

# Standard deviations, root mean square over the features; a feature that hardly moves among the anchors says nothing of how
# alike they are, and must not be blown up. By choice.
_LENGTH = 1.0
_STILL = 1e-3


@dataclass(frozen=True)
class Calibration:
    """A recipe's errors on one GPU, a Gaussian process over its anchors (Rasmussen & Williams 2006, eq. 2.25-26).

    Answers into and out of the GPU have separate processes (decision 0015).

    Attributes:
        gpu: catalogue name of the GPU that the anchors were measured on.
        into: whether each anchor pair has it as target.
        others: the GPU at the other end.
        workloads: of each pair.
        telemetry: statistics of each profile, empty where one of them has none.
        residuals: log(measured ratio) − the recipe's log ratio.
    """

    gpu: str
    into: tuple[bool, ...]
    others: tuple[str, ...]
    workloads: tuple[str, ...]
    telemetry: tuple[tuple[float, ...], ...]
    residuals: tuple[float, ...]

    @classmethod
    def fit(cls, gpu: str, pairs: Sequence[Pair], base: Answers) -> "Calibration":
        """Learn the errors of ``base``, the recipe's answers for measured pairs; pairs without this GPU do not count.

        Raises:
            InputError: fewer than :data:`FEWEST` workloads were measured on this GPU and on another, or too many.
        """
        rows = np.flatnonzero([gpu in pair.gpus for pair in pairs])
        touched = at(pairs, rows)
        if (count := len({pair.source.workload for pair in touched})) < FEWEST:
            raise InputError(
                f"{count} workloads were measured both on {gpu} and on another GPU; calibration needs {FEWEST}: measure more"
            )
        if len(touched) > MOST_PAIRS:
            raise InputError(
                f"{len(touched)} measured pairs are too many for a calibration, which takes {MOST_PAIRS}; train a model "
                "on both data sets with `epochcast fit regressor`"
            )
        recorded = all(has_telemetry(pair.source) for pair in touched)
        return cls(
            gpu,
            tuple(pair.target_gpu.name == gpu for pair in touched),
            tuple(pair.source_gpu.name if pair.target_gpu.name == gpu else pair.target_gpu.name for pair in touched),
            tuple(str(pair.source.workload) for pair in touched),
            tuple(map(tuple, statistics_of(touched).tolist())) if recorded else (),
            tuple((np.log(actual_ratio(touched)) - base.log_ratio[rows]).tolist()),
        )

    @property
    def count(self) -> int:
        """How many workloads were measured."""
        return len(set(self.workloads))

    def correct(self, pairs: Sequence[Pair], base: Answers) -> Answers:
        """Correct the answers into and out of the GPU; what another calibration corrected stays as it is.

        A corrected answer is surer in the proportion in which the anchors take doubt away. One out of the GPU to another that
        no anchor was measured on stays as it is: how the recipe errs there is not known.
        """
        log_ratio, scale, routes = base.log_ratio.copy(), base.scale.copy(), base.routes.astype("<U14")
        in_precision = base.in_precision.copy()
        for into in (True, False):
            ours = np.flatnonzero(np.array(self.into) == into)
            others = [(pair.source_gpu if into else pair.target_gpu).name for pair in pairs]
            ends = [(pair.target_gpu if into else pair.source_gpu).name for pair in pairs]
            known = {self.others[row] for row in ours}
            rows = np.flatnonzero(
                [
                    end == self.gpu and route != ROUTE and (into or other in known)
                    for end, other, route in zip(ends, others, routes, strict=True)
                ]
            )
            if ours.size and rows.size:
                shift, deviation = self._errors(ours, at(pairs, rows), [others[row] for row in rows.tolist()])
                log_ratio[rows] += shift
                in_precision[rows] += shift[:, None]
                scale[rows] *= deviation / _PRIOR
                routes[rows] = ROUTE
        return replace(base, log_ratio=log_ratio, scale=scale, routes=routes, in_precision=in_precision)

    def _errors(
        self, ours: NDArray[np.intp], pairs: Sequence[Pair], others: Sequence[str]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and standard deviation of the error that a newly measured workload would show, shape (n,) each."""
        own = [self.others[row] for row in ours]
        workloads = [self.workloads[row] for row in ours]
        alike, cross = np.zeros((len(ours), len(ours))), np.zeros((len(pairs), len(ours)))
        if self.telemetry:
            anchors = np.array(self.telemetry)[ours]
            spread = anchors.std(axis=0)
            centre, spread = anchors.mean(axis=0), np.where(spread > _STILL, spread, 1.0)
            kernel, anchors = Matern(_LENGTH * np.sqrt(anchors.shape[1]), nu=1.5), (anchors - centre) / spread
            alike = kernel(anchors)
            rows = [row for row, pair in enumerate(pairs) if has_telemetry(pair.source)]
            if rows:
                cross[rows] = kernel((statistics_of([pairs[row] for row in rows]) - centre) / spread, anchors)
        covariance = _COMMON**2 + _PER_GPU**2 * _same(own, own) + _SMOOTH**2 * alike
        covariance += _PER_WORKLOAD**2 * _same(workloads, workloads) + _PER_PAIR**2 * np.eye(len(ours))
        cross = _COMMON**2 + _PER_GPU**2 * _same(others, own) + _SMOOTH**2 * cross
        factor = cho_factor(covariance)
        variance = _PRIOR**2 - (cross * cho_solve(factor, cross.T).T).sum(axis=1)
        return cross @ cho_solve(factor, np.array(self.residuals)[ours]), np.sqrt(np.maximum(variance, _PER_PAIR**2))


def calibrate(recipe: DefaultRecipe, pairs: Sequence[Pair]) -> list[Calibration]:
    """Calibrate every GPU of measured pairs that the recipe has not seen, on its pairs with those that it has.

    A recipe with telemetry has seen the GPUs that it was recorded on, any other those that have rates.

    Raises:
        InputError: no GPU is new, none is known, or one was measured on too few workloads next to a known GPU.
    """
    gpus = sorted({pair.source_gpu.name for pair in pairs})
    model = recipe.telemetry_
    rated = [gpu for gpu in gpus if gpu in recipe.ridge_.gpus]
    known = [gpu for gpu in gpus if model is not None and gpu in model.gpus] or rated
    new = [gpu for gpu in gpus if gpu not in known]
    if not new:
        raise InputError(
            f"the model was already trained on {', '.join(gpus)}, so these {len(pairs)} pairs calibrate nothing; "
            "train a model on both data sets with `epochcast fit regressor`"
        )
    if not known:
        raise InputError(
            f"the measurements cover only {', '.join(new)}; also measure the same workloads on a GPU that the model knows, "
            f"such as {', '.join(recipe.ridge_.gpus[:4])}"
        )
    beside = [pair for pair in pairs if (pair.source_gpu.name in known) != (pair.target_gpu.name in known)]
    base = recipe.answer(beside)
    return [Calibration.fit(gpu, beside, base) for gpu in new]


def _same(ours: Sequence[str], theirs: Sequence[str]) -> NDArray[np.float64]:
    same: NDArray[np.bool_] = np.array(ours)[:, None] == np.array(theirs)[None]
    return same.astype(np.float64)
