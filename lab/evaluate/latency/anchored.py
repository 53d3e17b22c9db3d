"""Protocol P4 with anchors: a GPU left out of training, calibrated on k workloads, tested on the others."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from epochcast.regressor.answers import Answers
from epochcast.regressor.calibration import FEWEST, Calibration
from epochcast.regressor.errors import InputError
from epochcast.regressor.pairs import Pair, at


def with_anchors(
    pairs: Sequence[Pair],
    base: Answers,
    count: int,
    orders: Mapping[str, Sequence[str]],
) -> tuple[NDArray[np.intp], Answers]:
    """Calibrate each left-out GPU on its first ``count`` anchors, and answer the other workloads' pairs into it.

    Args:
        pairs: measured pairs.
        base: answers for them by recipes fitted without their target GPU (protocol P4).
        count: anchor workloads per GPU; 0 leaves the answers as they are.
        orders: workloads per GPU in the order in which they become anchors.

    Returns:
        The rows tested, shape (m,), and their answers.

    Raises:
        InputError: ``count`` is neither 0 nor enough for a calibration, or leaves nothing to test.
    """
    if count and count < FEWEST:
        raise InputError(f"calibration with {count} anchors is not possible; give {FEWEST} or more, or 0 for none")
    left_out = np.array([pair.target_gpu.name for pair in pairs])
    workloads = np.array([str(pair.source.workload) for pair in pairs])
    tested: list[NDArray[np.intp]] = []
    answers: list[Answers] = []
    for gpu in np.unique(left_out).tolist():
        is_anchor = np.isin(workloads, list(orders[gpu][:count]))
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
