"""Traces whose period changes: no single period is true, so that a sure one for the whole is wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from epochcast.detector.confidence import ANSWERS
from epochcast.detector.epochs import Detection
from epochcast.detector.labels import Labels
from lab.evaluate.detection.scores import TOLERANCE

#: A true regime has so many epochs within this share of their median; neighbours differ by more than that. By choice.
EPOCHS, ALIKE, DIFFERENT = 3, 0.10, 0.20

#: An answer is one period for the whole trace if it covers this share of the labelled span. By choice.
COVERED = 0.6


def true_regimes(labels: Labels) -> list[tuple[float, float, float]]:
    """Start, end [unix s] and period [s] of each run of epochs that are about as long, where neighbouring runs differ."""
    bounds = [*labels.epoch_starts, labels.epoch_ends[-1]]
    lengths = np.diff(bounds)
    runs: list[tuple[float, float, float]] = []
    first = 0
    while first < lengths.size:
        last = first + 1
        while last < lengths.size and _alike(lengths[first : last + 1]):
            last += 1
        if last - first >= EPOCHS:
            period = float(np.median(lengths[first:last]))
            if not runs or abs(period / runs[-1][2] - 1) > DIFFERENT:
                runs.append((bounds[first], bounds[last], period))
        first = last
    return runs


def score_regimes(detections: Mapping[str, tuple[Detection, Labels]]) -> dict[str, Any]:
    """How traces without a single true period are answered.

    Returns:
        `n` traces; `one_period_sure`, how many got one period at confidence >= 0.6 for the whole; `n_regimes`, how many have
        two true regimes or more, and `stretches_right`, of those, in how many each has a detected stretch that overlaps it with
        a period within 5 %; `by` trace: `regimes` and `stretches` [`start`, `end`, `period_s`], `verdict`, `confidence` and
        `reason`.
    """
    by = {}
    sure = several = right = 0
    for name, (detection, labels) in detections.items():
        regimes = true_regimes(labels)
        sure += _has_one_period(detection, labels)
        if len(regimes) > 1:
            several += 1
            right += all(
                any(
                    stretch.start < end and stretch.end > start and abs(stretch.period_s / period - 1) <= TOLERANCE
                    for stretch in detection.stretches
                )
                for start, end, period in regimes
            )
        by[name] = {
            "regimes": _spans(regimes),
            "stretches": _spans([(each.start, each.end, each.period_s) for each in detection.stretches]),
            "verdict": detection.verdict,
            "confidence": detection.confidence,
            "reason": detection.reason,
        }
    return {"n": len(by), "one_period_sure": sure, "n_regimes": several, "stretches_right": right, "by": by}


def _alike(lengths: np.ndarray) -> bool:
    return bool((np.abs(lengths / np.median(lengths) - 1) <= ALIKE).all())


def _has_one_period(detection: Detection, labels: Labels) -> bool:
    if detection.verdict != "epochs" or detection.confidence < ANSWERS or len(detection.stretches) > 1:
        return False
    start, end = labels.epoch_starts[0], labels.epoch_ends[-1]
    covered = min(end, detection.epochs[-1].end) - max(start, detection.epochs[0].start)
    return covered >= COVERED * (end - start)


def _spans(spans: Sequence[tuple[float, float, float]]) -> list[dict[str, float]]:
    return [{"start": start, "end": end, "period_s": period} for start, end, period in spans]
