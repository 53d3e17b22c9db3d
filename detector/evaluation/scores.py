"""The score of one detection: its period and its boundaries against the labels."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import clock as clocks
from ..clock import Clock
from ..epochs import ClockName, Detection, Job, Verdict
from ..errors import InputError
from ..signals import clean
from .labels import Labels

#: A period is right, and boundaries match, within this share of the true period.
TOLERANCE = 0.05


@dataclass(frozen=True)
class TraceScore:
    """One trace's score.

    Attributes:
        name, cls: the trace's, and the class to group it by (`training` or `other` where the labels name none).
        training, steps: what the labels say: epochs; or a strictly even loop without epochs.
        verdict, confidence, clock: what the detection says.
        true_period, found_period, baseline_period: seconds of the clock; None without a true period or an answer. The
            baseline is the trivial one, the trace's length / 10. With two jobs labelled the true one is that of the job that
            the answer is nearest to (the main one without an answer).
        error, baseline_error: percent, None likewise.
        boundary_f1: of the epochs' boundaries at 5 % of the true period; 0 for an abstention, None on a trace without training.
        boundary_error_s, boundary_error_samples: median distance of matched boundaries, in wall seconds and in sampling
            intervals; None if none match (see `boundary_error`).
        jobs, jobs_found: how many are labelled, and how many of those `Detection.jobs` reports within 5 %.
        samples, sample_s, telemetry_s: number, median interval and total length of the trace [wall s].
        cpu_s: what the detection cost, None if nobody measured it.
        reason: why the method refused the trace, None if it did not; a refusal counts as an abstention.
    """

    name: str
    cls: str
    training: bool
    steps: bool
    verdict: Verdict
    confidence: float
    clock: ClockName
    true_period: float | None
    found_period: float | None
    baseline_period: float | None
    error: float | None
    baseline_error: float | None
    boundary_f1: float | None
    boundary_error_s: float | None
    boundary_error_samples: float | None
    jobs: int
    jobs_found: int
    samples: int
    sample_s: float
    telemetry_s: float
    cpu_s: float | None
    reason: str | None

    @property
    def right(self) -> bool:
        """Whether it is a training whose period was found within 5 %."""
        return self.error is not None and self.error < 100 * TOLERANCE

    @property
    def false_alarm(self) -> bool:
        """Whether epochs were found where there are none."""
        return not self.training and self.verdict == "epochs"


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


def boundary_error(truth: ArrayLike, found: ArrayLike, reach: float) -> float | None:
    """Median distance in seconds of the boundaries that are each other's nearest, within `reach`; None if there are none.

    Unlike `boundary_f1` it pairs each boundary with the nearest one, not with the earliest that fits: at half a period two fit.

    Args:
        truth, found: (k,) and (m,) seconds.
        reach: seconds, inclusive.
    """
    left = np.asarray(truth, dtype=np.float64)
    right = np.asarray(found, dtype=np.float64)
    if not (left.size and right.size):
        return None
    distance = np.abs(left[:, None] - right[None, :])
    nearest = distance.argmin(axis=1)
    mutual = distance.argmin(axis=0)[nearest] == np.arange(left.size)
    matched = distance[np.arange(left.size), nearest][mutual]
    matched = matched[matched <= reach]
    return float(np.median(matched)) if matched.size else None


def score_trace(
    name: str,
    detection: Detection,
    labels: Labels,
    time: ArrayLike,
    metrics: Mapping[str, ArrayLike],
    *,
    cpu_s: float | None = None,
    reason: str | None = None,
) -> TraceScore:
    """Score one detection against the labels of the trace that it was made on, on the detection's own clock.

    A cycle with verdict `steps` counts as an answer on a training trace (its epochs may be that short), but not as a false
    alarm on another. With two jobs labelled, an answer is scored against the job whose period it is nearest to, and so is
    the baseline.

    Args:
        name: of the trace.
        detection, labels: of it.
        time, metrics: the trace, as given to `detect`.
        cpu_s, reason: passed on to the score.

    Raises:
        InputError: the trace is unusable, see `signals.clean`, or most of the labels lie outside of it.
    """
    signals = clean(time, metrics)
    for starts, _ in labels.jobs:
        _check_inside(starts, signals.time)
    clock = clocks.choose(signals, detection.clock)
    found = detection.period_s if detection.clock == "wall" else detection.period_work
    sample_s = float(np.median(np.diff(signals.time)))
    true = baseline = error = baseline_error = f1 = apart = None
    if labels.jobs:
        truths = [_period(clock.at(np.array(starts))) for starts, _ in labels.jobs]
        nearest = 0 if found is None else min(range(len(truths)), key=lambda job: period_error(found, truths[job]))
        true = truths[nearest]
        baseline = float(clock.reading[-1] - clock.reading[0]) / 10
        baseline_error = min(period_error(baseline, period) for period in truths)
        error = None if found is None else period_error(found, true)
        starts, ends = labels.jobs[nearest]
        bounds = np.unique([*starts, ends[-1]])
        marks = np.unique([time for epoch in detection.epochs for time in (epoch.start, epoch.end)])
        f1 = boundary_f1(clock.at(bounds), clock.at(marks), TOLERANCE * true)
        apart = boundary_error(bounds, marks, _period(np.array(starts)) / 2)
    return TraceScore(
        name=name,
        cls=labels.cls or ("training" if labels.training else "other"),
        training=labels.training,
        steps=labels.steps,
        verdict=detection.verdict,
        confidence=detection.confidence,
        clock=detection.clock,
        true_period=true,
        found_period=found,
        baseline_period=baseline,
        error=error,
        baseline_error=baseline_error,
        boundary_f1=f1,
        boundary_error_s=apart,
        boundary_error_samples=None if apart is None else apart / sample_s,
        jobs=len(labels.jobs),
        jobs_found=_jobs_found(detection.jobs, labels, clock),
        samples=signals.time.size,
        sample_s=sample_s,
        telemetry_s=float(signals.time[-1] - signals.time[0]),
        cpu_s=cpu_s,
        reason=reason,
    )


def _check_inside(starts: tuple[float, ...], time: NDArray[np.float64]) -> None:
    inside = int(np.sum((time[0] <= np.array(starts)) & (np.array(starts) <= time[-1])))
    if inside < max(2, len(starts) / 2):
        raise InputError(
            f"{inside} of the {len(starts)} labelled epochs start within the trace (of {time[0]:.1f} to {time[-1]:.1f}, the "
            f"first starts at {starts[0]:.1f}): labels and trace must be on the same clock, in unix seconds"
        )


def _jobs_found(jobs: tuple[Job, ...], labels: Labels, clock: Clock) -> int:
    """How many labelled jobs have a reported one within 5 % of their period, each reported one used once."""
    reported = [period for job in jobs if (period := _reported_period(job, clock))]
    found = 0
    for starts, _ in labels.jobs:
        true = _period(clock.at(np.array(starts)))
        near = [period for period in reported if period_error(period, true) < 100 * TOLERANCE]
        if near:
            found += 1
            reported.remove(min(near, key=lambda period: abs(period - true)))
    return found


def _reported_period(job: Job, clock: Clock) -> float | None:
    """Of a job, in seconds of the clock; `Job.period_s` is in wall seconds."""
    if clock.name == "wall":
        return job.period_s
    bounds = clock.at(np.unique([time for epoch in job.epochs for time in (epoch.start, epoch.end)]))
    return _period(bounds) if bounds.size > 1 else None


def _period(starts: NDArray[np.float64]) -> float:
    return float(np.median(np.diff(starts)))
