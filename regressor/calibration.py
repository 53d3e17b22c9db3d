"""Calibration: a few workloads measured on a new GPU correct the answers into and out of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.derived import has_smooth_features, smooth_features
from epochcast.regressor.errors import InputError
from epochcast.regressor.pairs import Pair, actual_ratio, at
from epochcast.regressor.recipes.default import DefaultRecipe
from epochcast.regressor.residual_process import ResidualProcess

ROUTE = "calibrated"
"""The route of an answer that anchors corrected."""

FEWEST = 3
"""Anchor workloads that a calibration needs; with one or two picked at random answers get worse (decision 0015)."""


@dataclass(frozen=True)
class Calibration:
    """A recipe's errors on one GPU, from its anchors.

    Answers into and out of the GPU have separate processes, because the telemetry of the new GPU and of the others errs in
    different ways; one antisymmetric process for both was worse for either (decision 0015).

    Attributes:
        gpu: catalogue name of the GPU that the anchors were measured on.
        workloads: how many anchor workloads.
        into, out: errors of the pairs with this GPU as target and as source; ``None`` where none was measured.
    """

    gpu: str
    workloads: int
    into: ResidualProcess | None
    out: ResidualProcess | None

    @classmethod
    def fit(cls, gpu: str, pairs: Sequence[Pair], base: Answers) -> Self:
        """Learn the errors of ``base``, the recipe's answers for measured pairs; pairs without this GPU do not count.

        Raises:
            InputError: fewer than :data:`FEWEST` workloads were measured on this GPU and on another, with the metrics needed.
        """
        usable = _usable(gpu, pairs)
        workloads = {pairs[row].source.workload for row in np.flatnonzero(usable).tolist()}
        if len(workloads) < FEWEST:
            raise InputError(
                f"{len(workloads)} workloads with gpu_utilization, memory_utilization, power and sm_clock were measured both "
                f"on {gpu} and on another GPU; calibration needs {FEWEST}: measure more of them"
            )
        return cls(
            gpu,
            len(workloads),
            _process(usable & _into(gpu, pairs), pairs, base, other="source"),
            _process(usable & ~_into(gpu, pairs), pairs, base, other="target"),
        )

    def correct(self, pairs: Sequence[Pair], base: Answers) -> Answers:
        """Correct the answers into and out of the GPU; what another calibration corrected stays as it is.

        The scale of a corrected answer is the process's standard deviation, wider in the proportion in which the recipe itself
        is less sure of this pair than of the anchors.

        An answer out of the GPU to one that no anchor was measured on stays as it is: how the recipe errs there is not known
        (public data, two GPUs trained, one calibrated, one predicted: 14.0 % corrected, 13.1 % not, 79 % inside the interval).
        """
        log_ratio, scale, routes = base.log_ratio.copy(), base.scale.copy(), base.routes.astype(object)
        open_rows = _usable(self.gpu, pairs) & (base.routes != ROUTE)
        into = _into(self.gpu, pairs)
        out = np.isin(_others(pairs, "target"), [] if self.out is None else self.out.gpus)
        for process, which, other in ((self.into, into, "source"), (self.out, out & ~into, "target")):
            rows = np.flatnonzero(open_rows & which)
            if process is None or not rows.size:
                continue
            queried = at(pairs, rows)
            shift, deviation = process.predict(smooth_features(queried), _others(queried, other))
            log_ratio[rows] += shift
            scale[rows] = deviation * np.maximum(base.scale[rows] / process.base_scale, 1.0)
            routes[rows] = ROUTE
        return replace(base, log_ratio=log_ratio, scale=scale, routes=routes.astype(str))

    def state(self) -> dict[str, Any]:
        """Return the calibration as JSON values."""
        return {
            "gpu": self.gpu,
            "workloads": self.workloads,
            "into": None if self.into is None else self.into.state(),
            "out": None if self.out is None else self.out.state(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Build what :meth:`state` described."""
        into, out = (None if state[key] is None else ResidualProcess(**state[key]) for key in ("into", "out"))
        return cls(state["gpu"], state["workloads"], into, out)


def calibrate(recipe: DefaultRecipe, pairs: Sequence[Pair]) -> list[Calibration]:
    """Calibrate every GPU of measured pairs that the recipe has no telemetry of, on its pairs with those that it has.

    Raises:
        InputError: no GPU is new, or one was measured on too few workloads next to a known GPU.
    """
    if recipe.correction_ is None:
        raise InputError(
            "the model was trained without telemetry, which a calibration needs; train a model on profiles "
            "with gpu_utilization, memory_utilization, power and sm_clock"
        )
    known = recipe.correction_.gpus
    gpus = {pair.source_gpu.name for pair in pairs}
    new = sorted(gpus - set(known))
    if not new:
        raise InputError(
            f"the model was already trained on {', '.join(sorted(gpus))}, so these {len(pairs)} pairs calibrate nothing; "
            "train a model on both data sets with `epochcast fit regressor`"
        )
    if len(new) == len(gpus):
        raise InputError(
            f"the measurements cover only {', '.join(new)}; also measure the same workloads on one of {', '.join(known)}, for "
            "which the model has telemetry"
        )
    beside = [pair for pair in pairs if (pair.source_gpu.name in known) != (pair.target_gpu.name in known)]
    base = recipe.answer(beside)
    return [Calibration.fit(gpu, beside, base) for gpu in new]


def _usable(gpu: str, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    """Pairs into or out of the GPU whose profile holds the features."""
    touched = [gpu in pair.gpus for pair in pairs]
    return np.array(touched, dtype=bool) & has_smooth_features(pairs)


def _into(gpu: str, pairs: Sequence[Pair]) -> NDArray[np.bool_]:
    return np.array([pair.target_gpu.name == gpu for pair in pairs], dtype=bool)


def _others(pairs: Sequence[Pair], end: str) -> list[str]:
    """The GPU at the other end of each pair."""
    return [(pair.source_gpu if end == "source" else pair.target_gpu).name for pair in pairs]


def _process(which: NDArray[np.bool_], pairs: Sequence[Pair], base: Answers, other: str) -> ResidualProcess | None:
    rows = np.flatnonzero(which)
    if not rows.size:
        return None
    measured = at(pairs, rows)
    return ResidualProcess(
        X=smooth_features(measured),
        gpus=_others(measured, other),
        workloads=[str(pair.source.workload) for pair in measured],
        residuals=np.log(actual_ratio(measured)) - base.log_ratio[rows],
        base_scale=float(np.median(base.scale[rows])),
    )
