"""The score of one detection, or of a method on one labelled trace: its period and its boundaries against the labels."""

from collections.abc import Mapping
from dataclasses import dataclass
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector import clock as clocks
from epochcast.detector.clock import Clock
from epochcast.detector.detection import detect
from epochcast.detector.epochs import ClockName, Detection, JobEpochs, Verdict
from epochcast.detector.errors import InputError
from epochcast.detector.labels import Labels
from epochcast.detector.methods import METHODS
from epochcast.detector.signals import Signals, clean
from lab.evaluate.detection.boundaries import boundary_error, boundary_f1, lagged_boundary_f1

#: A period is right, and boundaries match, within this share of the true period. From ../shared/research/detector.md, 3.
TOLERANCE = 0.05


@dataclass(frozen=True)
class TraceScore:
    """One trace's score.

    Attributes:
        name, cls: the trace's, and the class to group it by (`training` or `other` where the labels name none).
        repo, simulated: its origin, from the labels.
        training, steps: whether the labels have epochs, or mark a strictly even loop without epochs.
        verdict, confidence, clock: from the detection.
        true_period, found_period, baseline_period: seconds of the clock; None without a true period or an answer. The
            baseline is the trivial one, the trace's length / 10. With two jobs labelled the true one is that of the job that
            the answer is nearest to (the main one without an answer).
        error, baseline_error: percent, None likewise.
        boundary_f1: of the epochs' boundaries at 5 % of the true period; 0 for an abstention, None on a trace without training.
        boundary_error_s, boundary_error_samples: median distance of matched boundaries, in wall seconds and in sampling
            intervals; None if none match (see `boundary_error`).
        boundary_f1_lagged, boundary_lag_s: F1 after the one lag of the marks [wall s] that gives the highest, at 5 % of the
            period or one sample, whichever is more; None on a trace without training.
        epochs_true, epochs_found: how many, 0 for an abstention; None on a trace without training.
        ends_right: whether the first start and the last end lie within 5 % of a period of the true ones; None likewise.
        jobs, jobs_found: how many are labelled, and how many of those `Detection.jobs` reports within 5 %.
        samples, sample_s, telemetry_s: number, median interval and total length of the trace [wall s].
        samples_per_epoch: of the true period; None without one.
        cpu_s: what the detection cost, None if nobody measured it.
        reason: why the method refused the trace, None if it did not; a refusal counts as an abstention.
    """

    name: str
    cls: str
    repo: str | None
    simulated: bool
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
    boundary_f1_lagged: float | None
    boundary_lag_s: float | None
    epochs_true: int | None
    epochs_found: int | None
    ends_right: bool | None
    jobs: int
    jobs_found: int
    samples: int
    sample_s: float
    telemetry_s: float
    samples_per_epoch: float | None
    cpu_s: float | None
    reason: str | None

    @property
    def right(self) -> bool:
        """Whether it is a training whose detected period is within 5 % of the true one."""
        return self.error is not None and self.error < 100 * TOLERANCE

    @property
    def false_alarm(self) -> bool:
        """Whether epochs were detected where there are none."""
        return not self.training and self.verdict == "epochs"


def period_error(detected: float, true: float) -> float:
    """|detected / true - 1| in percent. Raises InputError unless both are positive."""
    if not (detected > 0 and true > 0):
        raise InputError(f"periods must be positive, got {detected} and {true}: without an answer there is no error")
    return abs(detected / true - 1) * 100


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
    detected = detection.period_s if detection.clock == "wall" else detection.period_work
    sample_s = float(np.median(np.diff(signals.time)))
    true = baseline = error = baseline_error = f1 = apart = lagged = lag = wall = ends = None
    count: int | None = None
    if labels.jobs:
        truths = [_period(clock.at(np.array(starts))) for starts, _ in labels.jobs]
        nearest = 0 if detected is None else min(range(len(truths)), key=lambda job: period_error(detected, truths[job]))
        true = truths[nearest]
        baseline = float(clock.reading[-1] - clock.reading[0]) / 10  # all of the authors' runs have ten epochs
        baseline_error = min(period_error(baseline, period) for period in truths)
        error = None if detected is None else period_error(detected, true)
        starts, ends_of = labels.jobs[nearest]
        bounds = np.unique([*starts, ends_of[-1]])
        marks = np.unique([time for epoch in detection.epochs for time in (epoch.start, epoch.end)])
        f1 = boundary_f1(clock.at(bounds), clock.at(marks), TOLERANCE * true)
        wall = _period(np.array(starts))
        apart = boundary_error(bounds, marks, wall / 2)
        # Lags are wall seconds on either clock.
        lagged, lag = lagged_boundary_f1(bounds, marks, max(TOLERANCE * wall, sample_s), wall / 2)
        count = len(starts)
        ends = bool(marks.size) and bool(max(abs(marks[0] - starts[0]), abs(marks[-1] - ends_of[-1])) <= TOLERANCE * wall)
    return TraceScore(
        name=name,
        cls=labels.cls or ("training" if labels.training else "other"),
        repo=labels.repo,
        simulated=labels.simulated,
        training=labels.training,
        steps=labels.steps,
        verdict=detection.verdict,
        confidence=detection.confidence,
        clock=detection.clock,
        true_period=true,
        found_period=detected,
        baseline_period=baseline,
        error=error,
        baseline_error=baseline_error,
        boundary_f1=f1,
        boundary_error_s=apart,
        boundary_error_samples=None if apart is None else apart / sample_s,
        boundary_f1_lagged=lagged,
        boundary_lag_s=lag,
        epochs_true=count,
        epochs_found=None if count is None else len(detection.epochs),
        ends_right=ends,
        jobs=len(labels.jobs),
        jobs_found=_matched_jobs(detection.jobs, labels, clock),
        samples=signals.time.size,
        sample_s=sample_s,
        telemetry_s=float(signals.time[-1] - signals.time[0]),
        samples_per_epoch=None if wall is None else wall / sample_s,
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


def _matched_jobs(jobs: tuple[JobEpochs, ...], labels: Labels, clock: Clock) -> int:
    """How many labelled jobs have a reported one within 5 % of their period, each reported one used once."""
    reported = [period for job in jobs if (period := _reported_period(job, clock))]
    matched = 0
    for starts, _ in labels.jobs:
        true = _period(clock.at(np.array(starts)))
        near = [period for period in reported if period_error(period, true) < 100 * TOLERANCE]
        if near:
            matched += 1
            reported.remove(min(near, key=lambda period: abs(period - true)))
    return matched


def _reported_period(job: JobEpochs, clock: Clock) -> float | None:
    """Of a job, in seconds of the clock; `JobEpochs.period_s` is in wall seconds."""
    if clock.name == "wall":
        return job.period_s
    bounds = clock.at(np.unique([time for epoch in job.epochs for time in (epoch.start, epoch.end)]))
    return _period(bounds) if bounds.size > 1 else None


def _period(starts: NDArray[np.float64]) -> float:
    return float(np.median(np.diff(starts)))


def evaluate_trace(
    name: str,
    time: ArrayLike,
    metrics: Mapping[str, ArrayLike],
    labels: Labels,
    *,
    method: str = "track",
    clock: Literal["wall", "work", "auto"] = "auto",
    **parameters: Any,
) -> TraceScore:
    """Run a method on a trace and score its answer; the method sees nothing but the trace.

    Where the method refuses the trace (too short for it, no activity for its clock) the score is that of an abstention and
    holds the reason. `cpu_s` is CPU time of this process, all threads.

    Args:
        name: of the trace.
        time, metrics, method, clock, parameters: as for `detect`.
        labels: the truth.

    Raises:
        InputError: the trace itself is unusable, see `signals.clean`, the method unknown, or the labels are not the trace's.
    """
    if method not in METHODS:
        raise InputError(f"unknown method {method!r}: choose from {', '.join(METHODS)}")
    signals = clean(time, metrics)
    reason = None
    began = process_time()
    try:
        detection = detect(time, metrics, method=method, clock=clock, **parameters)
    except InputError as error:
        reason = str(error)
        detection = Detection("none", None, None, (), 0.0, method, _clock_name(signals, clock))
    spent = process_time() - began
    return score_trace(name, detection, labels, time, metrics, cpu_s=spent, reason=reason)


def _clock_name(signals: Signals, clock: Literal["wall", "work", "auto"]) -> ClockName:
    """The clock that the trace would have been searched on; the wall clock where it has no other."""
    try:
        return clocks.choose(signals, clock).name
    except InputError:
        return "wall"
