"""Protocol P4 with anchors: a GPU left out of training, calibrated on k workloads, tested on the others."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.anchors import Anchor, anchor_order
from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import FEWEST, ROUTE, Calibration
from epochcast.regressor.errors import InputError
from epochcast.regressor.intervals import ScaledInterval
from epochcast.regressor.pairs import Pair, actual_ratio, at

# From the fewest that help to as many as anyone will measure; the deviation falls with k, so one quantile serves all.
# By choice.
_COUNTS = (3, 5, 10, 20)

Side = Literal["into", "out"]


def chosen_anchors(pairs: Sequence[Pair], gpu: str) -> list[str]:
    """All workloads measured on ``gpu`` in the order in which anchors are taken, chosen from pairs between other GPUs.

    A chosen workload that was not measured on ``gpu`` (it may not fit) is passed over, as a user would.
    """
    library = [pair for pair in pairs if gpu not in pair.gpus]
    measured = {pair.source.workload for pair in pairs if pair.target_gpu.name == gpu}
    return [anchor["workload"] for anchor in anchor_order(library, count=len(pairs)) if anchor["workload"] in measured]


def with_anchors(
    pairs: Sequence[Pair],
    base: Answers,
    count: int,
    orders: Mapping[str, Sequence[str]] | None = None,
    side: Side = "into",
) -> tuple[NDArray[np.intp], Answers]:
    """Calibrate each left-out GPU on its first ``count`` anchors, and answer the other workloads' pairs into or out of it.

    Args:
        pairs: measured pairs.
        base: answers for them by recipes fitted without their target GPU (protocol P4), or, with ``side`` ``out``, without
            their source GPU.
        count: anchor workloads per GPU; 0 leaves the answers as they are.
        orders: workloads per GPU in the order in which they become anchors; :func:`chosen_anchors` unless given.
        side: which end of a pair is the left-out GPU.

    Returns:
        The rows tested, shape (m,), and their answers.

    Raises:
        InputError: ``count`` is neither 0 nor enough for a calibration, or leaves nothing to test.
    """
    if count and count < FEWEST:
        raise InputError(f"calibration with {count} anchors is not possible; give {FEWEST} or more, or 0 for none")
    left_out = np.array([(pair.target_gpu if side == "into" else pair.source_gpu).name for pair in pairs])
    workloads = np.array([str(pair.source.workload) for pair in pairs])
    tested: list[NDArray[np.intp]] = []
    answers: list[Answers] = []
    for gpu in np.unique(left_out).tolist():
        order = chosen_anchors(pairs, gpu) if orders is None else orders[gpu]
        is_anchor = np.isin(workloads, list(order[:count]))
        measured, test = (np.flatnonzero((left_out == gpu) & which) for which in (is_anchor, ~is_anchor))
        if not test.size:
            continue
        corrected = base[test]
        if count:
            calibration = Calibration.fit(gpu, at(pairs, measured), base[measured])
            corrected = calibration.correct(at(pairs, test), corrected)
        tested.append(test)
        answers.append(corrected)
    if not tested:
        raise InputError(f"{count} anchors leave no workload to test on any GPU; use fewer")
    return np.concatenate(tested), Answers.concatenate(answers)


@dataclass(frozen=True)
class Anchoring:
    """What calibrating a model takes and brings, measured when it was trained.

    Attributes:
        anchors: workloads to measure on a new GPU, best first.
        interval: of calibrated answers. Its quantiles by source are of answers into a new GPU; the one for any other source
            is of answers out of it, as no new GPU is among the sources.
        mape: percent on new GPUs by how many anchors, 0 among them.
    """

    anchors: list[Anchor]
    interval: ScaledInterval
    mape: dict[int, float]

    @classmethod
    def measure(cls, pairs: Sequence[Pair], into: Answers, out: Answers) -> Self:
        """Leave each GPU out, calibrate on 3, 5, 10 and 20 anchors, and take errors and intervals.

        ``into`` and ``out`` are the base answers of both sides of :func:`with_anchors`.

        The anchors' own errors cannot give the interval: below 9 of them no conformal quantile is finite, and few more are not
        stable. So the process says how much less it knows far from the anchors and with few of them, and the quantile of
        |error| / deviation comes from the GPUs of the library, each left out and calibrated the same way.

        Raises:
            InputError: the data are too few to calibrate any GPU.
        """
        actual = np.log(actual_ratio(pairs))
        orders = {gpu: chosen_anchors(pairs, gpu) for gpu in {pair.target_gpu.name for pair in pairs}}
        mape = {0: _mape(into.log_ratio - actual)}
        scored: dict[Side, list[tuple[NDArray[np.float64], Answers]]] = {"into": [], "out": []}
        for count in _COUNTS:
            try:
                for side in scored:
                    rows, corrected = with_anchors(pairs, into if side == "into" else out, count, orders, side)
                    scored[side].append((corrected.log_ratio - actual[rows], corrected))
            except InputError:
                if not scored["out"]:
                    raise
                break
            mape[count] = _mape(scored["into"][-1][0])
        interval = replace(_interval(scored["into"]), multiple=_interval(scored["out"]).multiple)
        return cls(anchor_order(pairs), interval, mape)

    def state(self) -> dict[str, Any]:
        """Return the figures as JSON values."""
        return {
            "anchors": [dict(anchor) for anchor in self.anchors],
            "interval": asdict(self.interval),
            "mape": list(self.mape.items()),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Build what :meth:`state` described."""
        return cls(list(state["anchors"]), ScaledInterval(**state["interval"]), dict(state["mape"]))


def _interval(scored: Sequence[tuple[NDArray[np.float64], Answers]]) -> ScaledInterval:
    """The interval of the calibrated answers; ``scored`` has log errors and answers for each number of anchors."""
    errors, answers = np.concatenate([errors for errors, _ in scored]), Answers.concatenate([answers for _, answers in scored])
    calibrated = np.flatnonzero(answers.routes == ROUTE)
    return ScaledInterval.of_errors(errors[calibrated], answers[calibrated], "P4-anchors")


def _mape(log_errors: NDArray[np.float64]) -> float:
    return float(100 * np.abs(np.expm1(log_errors)).mean())
