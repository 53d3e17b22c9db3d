"""How well detections agree with labels: pure functions, one score per trace and one summary.

Definitions: the true period is the median difference of the epoch starts. On the work clock both periods are in work seconds,
the truth mapped through the clock's own readings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import clock as clocks
from .epochs import ClockName, Detection, Verdict
from .errors import InputError
from .signals import clean

#: Boundaries match within this share of the true period.
TOLERANCE = 0.05


@dataclass(frozen=True)
class Labels:
    """The true epochs of a trace.

    Attributes:
        epoch_starts, epoch_ends: unix seconds, increasing; empty where `training` is false.
        training: false for a trace without any epochs.
    """

    epoch_starts: tuple[float, ...]
    epoch_ends: tuple[float, ...]
    training: bool

    @classmethod
    def from_json(cls, labels: Mapping[str, Any]) -> "Labels":
        """Labels from the object of a label file; foreign keys are ignored. Raises InputError if one is missing or wrong."""
        try:
            starts = tuple(float(value) for value in labels["epoch_starts"])
            ends = tuple(float(value) for value in labels["epoch_ends"])
            training = bool(labels["training"])
        except KeyError as error:
            raise InputError(f"the labels have no {error}: give epoch_starts, epoch_ends and training") from error
        except (TypeError, ValueError) as error:
            raise InputError(f"the labels hold something that is not a number ({error}): give unix seconds") from error
        if not np.isfinite([*starts, *ends]).all():
            raise InputError("the labels hold a time that is NaN or infinite: give unix seconds")
        if len(starts) != len(ends):
            raise InputError(f"the labels have {len(starts)} epoch_starts and {len(ends)} epoch_ends: give one end per start")
        if training and len(starts) < 2:
            raise InputError(f"the labels of a training have {len(starts)} epoch_starts: a period needs at least 2")
        if any(later <= earlier for earlier, later in pairwise(starts)):
            raise InputError("the labels' epoch_starts are not increasing: sort them, one per epoch")
        return cls(starts, ends, training)


@dataclass(frozen=True)
class TraceScore:
    """One trace's score.

    Attributes:
        name: the trace's.
        training: what the labels say.
        verdict, confidence, clock: what the detection says.
        true_period, found_period, baseline_period: seconds of the clock; None without a true period or an answer. The
            baseline is the trivial one, the trace's length / 10.
        error, baseline_error: percent, None likewise.
        boundary_f1: of the epochs' boundaries at 5 % of the true period; 0 for an abstention, None on a trace without training.
    """

    name: str
    training: bool
    verdict: Verdict
    confidence: float
    clock: ClockName
    true_period: float | None
    found_period: float | None
    baseline_period: float | None
    error: float | None
    baseline_error: float | None
    boundary_f1: float | None


def period_error(found: float, true: float) -> float:
    """|found / true - 1| in percent. Raises InputError unless both are positive."""
    if not (found > 0 and true > 0):
        raise InputError(f"periods must be positive, got {found} and {true}: an abstention has no error")
    return abs(found / true - 1) * 100


def boundary_f1(truth: ArrayLike, found: ArrayLike, tolerance: float) -> float:
    """F1 of boundaries that match one to one within the tolerance; 1 if there are none on either side.

    Args:
        truth, found: (k,) and (m,) seconds.
        tolerance: seconds, inclusive.
    """
    left = np.sort(np.asarray(truth, dtype=np.float64))
    right = np.sort(np.asarray(found, dtype=np.float64))
    if not left.size + right.size:
        return 1.0
    i = j = matched = 0
    # On a line, pairing the earliest two that fit is a largest matching.
    while i < left.size and j < right.size:
        if abs(left[i] - right[j]) <= tolerance:
            matched, i, j = matched + 1, i + 1, j + 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return 2 * matched / (left.size + right.size)


def score_trace(
    name: str, detection: Detection, labels: Labels, time: ArrayLike, metrics: Mapping[str, ArrayLike]
) -> TraceScore:
    """Score one detection against the labels of the trace that it was made on, on the detection's own clock.

    A cycle with verdict `steps` counts as an answer on a training trace (its epochs may be that short), but not as a false
    alarm on another.

    Raises:
        InputError: the trace is unusable, see `signals.clean`.
    """
    clock = clocks.choose(clean(time, metrics), detection.clock)
    found = detection.period_s if detection.clock == "wall" else detection.period_work
    if not labels.training:
        return TraceScore(
            name, False, detection.verdict, detection.confidence, detection.clock, None, found, None, None, None, None
        )
    starts = clock.at(np.array(labels.epoch_starts))
    true = float(np.median(np.diff(starts)))
    baseline = float(clock.reading[-1] - clock.reading[0]) / 10
    bounds = np.append(starts, clock.at(np.array(labels.epoch_ends[-1:])))
    spans = detection.epochs
    marks = clock.at(np.unique([time for epoch in spans for time in (epoch.start, epoch.end)]))
    return TraceScore(
        name=name,
        training=True,
        verdict=detection.verdict,
        confidence=detection.confidence,
        clock=detection.clock,
        true_period=true,
        found_period=found,
        baseline_period=baseline,
        error=None if found is None else period_error(found, true),
        baseline_error=period_error(baseline, true),
        boundary_f1=boundary_f1(bounds, marks, TOLERANCE * true),
    )


def summarise(rows: Sequence[TraceScore]) -> dict[str, float | int | None]:
    """One line for many traces.

    Returns:
        `n` training traces and `answered` ones; `coverage` answered / n; over the answered ones `mape` and `median_ape` in
        percent, `rmse` of the period in seconds of the clock and `r2` (None if their true periods do not differ);
        `within_5`, share of all n whose error is below 5 % (an abstention is a miss); `boundary_f1`, mean over all n;
        `baseline_mape`, `baseline_median_ape` and `baseline_within_5` of length / 10; `n_other` traces without training and
        `false_alarms`, how many of them got the verdict `epochs`. None where nothing was there to count.

    Raises:
        InputError: no rows.
    """
    if not rows:
        raise InputError("no trace to summarise: give at least one trace with its labels")
    training = [row for row in rows if row.training]
    other = [row for row in rows if not row.training]
    errors = [row.error for row in training if row.error is not None]
    periods = np.array(
        [(row.found_period, row.true_period) for row in training if row.error is not None], dtype=np.float64
    ).reshape(-1, 2)
    residual = float(((periods[:, 0] - periods[:, 1]) ** 2).sum())
    spread = float(((periods[:, 1] - periods[:, 1].mean()) ** 2).sum()) if errors else 0.0
    baseline = [row.baseline_error for row in training if row.baseline_error is not None]
    return {
        "n": len(training),
        "answered": len(errors),
        "coverage": _share(len(errors), len(training)),
        "mape": float(np.mean(errors)) if errors else None,
        "median_ape": float(np.median(errors)) if errors else None,
        "rmse": float(np.sqrt(residual / len(errors))) if errors else None,
        "r2": 1 - residual / spread if spread > 0 else None,
        "within_5": _share(sum(error < 5 for error in errors), len(training)),
        "boundary_f1": float(np.mean([row.boundary_f1 or 0.0 for row in training])) if training else None,
        "baseline_mape": float(np.mean(baseline)) if baseline else None,
        "baseline_median_ape": float(np.median(baseline)) if baseline else None,
        "baseline_within_5": _share(sum(error < 5 for error in baseline), len(training)),
        "n_other": len(other),
        "false_alarms": sum(row.verdict == "epochs" for row in other),
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
