"""What a confidence is worth: precision and coverage by threshold, and how often answers of a confidence are right."""

from collections.abc import Sequence

import numpy as np

from .scores import TraceScore

#: Thresholds of the confidence that are reported. By choice, as the bins below.
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)


_BINS = 10


def by_threshold(rows: Sequence[TraceScore], thresholds: Sequence[float] = THRESHOLDS) -> list[dict[str, float | int | None]]:
    """What would be left of the answers if only those of at least a confidence were given.

    Returns:
        Per threshold: `threshold`; `answers` on training traces, `coverage` (answers / training traces), `precision` (share of
        the answers within 5 %); `false_alarms` on other traces. None where nothing was there to count.
    """
    training = [row for row in rows if row.training]
    table = []
    for threshold in thresholds:
        answers = [row for row in training if row.error is not None and row.confidence >= threshold]
        right = sum(row.right for row in answers)
        table.append(
            {
                "threshold": threshold,
                "answers": len(answers),
                "coverage": len(answers) / len(training) if training else None,
                "precision": right / len(answers) if answers else None,
                "false_alarms": sum(row.false_alarm and row.confidence >= threshold for row in rows),
            }
        )
    return table


def reliability(rows: Sequence[TraceScore]) -> dict[str, object]:
    """Stated confidence against the share of right answers, in ten even bins; a false alarm is a wrong answer.

    Returns:
        `n` answers; `ece`, the expected calibration error (Guo et al. 2017, eq. 5): the mean over answers of the distance
        between a bin's mean confidence and its share of right answers, None without answers; `bins` that hold any, each with
        `low` and `high` (the last bin includes 1), `n`, mean `confidence` and share `right`.
    """
    answers = [row for row in rows if row.error is not None or row.false_alarm]
    stated = np.array([row.confidence for row in answers])
    right = np.array([row.right for row in answers], dtype=np.float64)
    number = np.minimum((stated * _BINS).astype(int), _BINS - 1)
    bins = []
    for index in np.unique(number).tolist():
        inside = number == index
        bins.append(
            {
                "low": index / _BINS,
                "high": (index + 1) / _BINS,
                "n": int(inside.sum()),
                "confidence": float(stated[inside].mean()),
                "right": float(right[inside].mean()),
            }
        )
    apart = sum(entry["n"] * abs(entry["confidence"] - entry["right"]) for entry in bins)
    return {"n": len(answers), "ece": apart / len(answers) if answers else None, "bins": bins}
