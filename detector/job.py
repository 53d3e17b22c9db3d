"""One training job on several GPUs: their evidence together chooses the cycle, and each GPU keeps its own boundaries."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from epochcast.detector import clock as clocks
from epochcast.detector.confidence import ANSWERS
from epochcast.detector.epochs import Detection, Epoch, JobEpochs
from epochcast.detector.errors import InputError
from epochcast.detector.methods import track
from epochcast.detector.methods.track.cycles import RIGHT_KIND
from epochcast.detector.methods.track.cycles.activity import RESTING
from epochcast.detector.methods.track.periods import SAME, same
from epochcast.detector.signals import Signals, clean

Array = NDArray[np.float64]
ClockChoice = Literal["wall", "work", "auto"]

# By choice where nothing else is said, set by hand; lab/speed/detector/jobs.py measures what they find together.

#: The period with most votes needs so many times the votes for all others: of three GPUs two are enough, of two one is not.
#: Decision 0038.
MAJORITY = 1.5

#: A GPU is idle that does less than this share of what the others do.
IDLE = 0.1

#: GPUs of one job begin their cycles together. One lags whose boundaries lie further from the others' than this share of the
#: period and so many samples; one drifts whose distance from them scatters by that. By choice: the benchmark has lags of 5 to
#: 20 %.
LAG, SAMPLES = 0.05, 3.0

#: Whole multiples of a step are this exact: GPUs of one job have periods that differ by less than 2 %, by choice. At six steps,
#: two multiples are 17 % apart.
STEPS_APART = 0.02

#: Traces of one job overlap for this share of the shortest.
TOGETHER = 0.5

#: A GPU that spins in a collective operation has this utilisation and more, and this share of its highest power and less: H100
#: that wait for a checkpoint draw 0.27 of it, 0.6 where power is a mean over the second around short steps. From
#: ../shared/data/real_traces.
SPINNING, DRAWN = 0.9, 0.65

#: Of the GPUs that a job waits for, at most this share; such waits fill this share of a cycle at least.
FEW, OFTEN = 0.25, 0.02


@dataclass(frozen=True)
class JobDetection:
    """The detections on the GPUs of one job.

    Attributes:
        job: the answer for all of them; None if their times hardly overlap: they are not GPUs of one job.
        gpus: for each trace the boundaries of the job's cycle on this GPU; if it does not show it, what it shows on its own.
        odd: place of a GPU in `gpus` -> how it differs from the others, a sentence that follows its name.
    """

    job: Detection | None
    gpus: tuple[Detection, ...]
    odd: Mapping[int, str]


def detect_job(
    traces: Sequence[tuple[ArrayLike, Mapping[str, ArrayLike]]],
    *,
    clock: ClockChoice = "auto",
    metric: str | Sequence[str] | None = None,
    **parameters: Any,
) -> JobDetection:
    """Find the epochs of one job in the telemetry of its GPUs, with the method `track`.

    The mean of all GPUs that do not idle is searched first: what single GPUs do cancels there, and what they share adds up. A
    GPU that shows the mean's cycle has it; one that does not is searched alone, and votes if confident. If some vote against
    the majority, the mean of the others is searched again.

    Args:
        traces: for each GPU time, (n,) unix seconds, and metrics, name -> (n,), as in `detect`.
        clock, metric, parameters: as in `detect`.

    Raises:
        InputError: no trace, and what `detect` refuses.
    """
    if not traces:
        raise InputError("a job has no trace: give at least one")
    signals = [clean(time, metrics) for time, metrics in traces]

    def search(gpu: Signals) -> Detection:
        return track.detect(gpu.select(metric), clocks.choose(gpu, clock), **parameters)

    first, last = max(gpu.time[0] for gpu in signals), min(gpu.time[-1] for gpu in signals)
    if len(signals) == 1 or last - first < TOGETHER * min(gpu.time[-1] - gpu.time[0] for gpu in signals):
        alone = [search(gpu) for gpu in signals]
        return JobDetection(alone[0] if len(signals) == 1 else None, tuple(alone), {})
    active = sorted(set(range(len(signals))) - _idle(signals))
    together = _together([signals[place] for place in active], first, last)
    mean = search(_mean(together, _waits(together))) if together and together[0].metrics else None
    alone = [_share(gpu.select(metric), clock, mean) or _alone(gpu, search, mean) for gpu in signals]
    votes = {
        place: detection
        for place, detection in enumerate(alone)
        if detection.period_s is not None and detection.confidence >= ANSWERS
    }
    # One of eight H100 that saves has 0.05 of the utilisation of those that spin until it is done, and shows the cycle best.
    idle = _idle(signals) - votes.keys()
    working = [place for place in range(len(signals)) if place not in idle]
    chosen = elected({place: detection.period_s for place, detection in votes.items() if detection.period_s})
    kept = [place for place in working if place in chosen or place not in votes]
    if kept != active:
        together = _together([signals[place] for place in kept], first, last)
        mean = search(_mean(together, _waits(together))) if together and together[0].metrics else None
    waits = _waits(together)
    job = alone[0] if mean is None else mean
    if votes and not chosen:
        job = Detection("none", None, None, (), job.confidence / 2, "track", job.clock, reason="rival_cycles")
    elif 2 * len(chosen) > len(working) and not any(_agree(job, alone[place]) for place in chosen):
        job = max((alone[place] for place in chosen), key=lambda detection: detection.confidence)
    if waits is not None:
        job = _with_waits(job, together[0].time, waits)
    gpus = [_own(detection, gpu.select(metric), clock, job) for detection, gpu in zip(alone, signals, strict=True)]
    odd = _apart(gpus, signals, job, idle) | _contradicting(votes, job, chosen) | dict.fromkeys(idle, "is idle")
    return JobDetection(job, tuple(gpus), dict(sorted(odd.items())))


def elected(periods: Mapping[int, float], apart: float = SAME) -> set[int]:
    """The voters for the period that has a clear majority; none without one.

    Args:
        periods: voter -> period [s] that it is sure of.
        apart: logarithm of the ratio of two periods up to which they are one.
    """
    groups = [
        {voter for voter, other in periods.items() if abs(float(np.log(period / other))) <= apart}
        for period in periods.values()
    ]
    best = max(groups, key=len, default=set())
    return best if len(best) >= MAJORITY * (len(periods) - len(best)) else set()


def _agree(first: Detection, second: Detection) -> bool:
    """Whether two answers have one period."""
    return first.period_s is not None and second.period_s is not None and same(first.period_s, second.period_s)


def _alone(signals: Signals, search: Callable[[Signals], Detection], mean: Detection | None) -> Detection:
    """What a GPU shows by itself; whole multiples of the mean's step are that step: some are alike on it."""
    own = search(signals)
    if mean is None or mean.step_s is None or own.step_s is None:
        return own
    ratio = own.step_s / mean.step_s
    return replace(mean, scores={}) if round(ratio) > 1 and abs(ratio / round(ratio) - 1) <= STEPS_APART else own


def _idle(signals: Sequence[Signals]) -> set[int]:
    """Places of the GPUs that hardly do anything while the others work."""
    name = signals[0].main()
    if any(name not in gpu.metrics for gpu in signals):
        return set()
    levels = [gpu.metrics[name] for gpu in signals]
    floor = min(float(np.percentile(level, 1)) for level in levels) if name.startswith("power") else 0.0
    means = np.array([level.mean() - floor for level in levels])
    return set(np.flatnonzero(means < IDLE * means.max()).tolist())


def _share(signals: Signals, clock: ClockChoice, mean: Detection | None) -> Detection | None:
    """The mean's answer on one GPU, with its own boundaries; None where it is not sure or the GPU does not show it."""
    if mean is None or mean.period_s is None or mean.confidence < ANSWERS or len(mean.stretches) > 1:
        return None
    if mean.verdict == "steps":
        shown = track.shows(signals, clocks.choose(signals, clock), mean.period_s)
        return replace(mean, scores={}) if shown else None
    epochs = _followed(signals, clock, mean)
    if not epochs:
        return None
    if not same(float(np.median([epoch.end - epoch.start for epoch in epochs])), mean.period_s):
        return None
    own = JobEpochs(mean.period_s, epochs, mean.confidence)
    return replace(mean, epochs=epochs, jobs=(own,), stretches=(), scores={})


def _followed(signals: Signals, clock: ClockChoice, job: Detection) -> tuple[Epoch, ...]:
    """The job's epochs on one GPU: none unless they fill most of their time there."""
    assert job.period_s is not None
    epochs = track.epochs_of(signals, clocks.choose(signals, clock), job.period_s)
    theirs = job.epochs[-1].end - job.epochs[0].start if job.epochs else 0.0
    return epochs if sum(epoch.end - epoch.start for epoch in epochs) > theirs / 2 > 0 else ()


def _together(signals: Sequence[Signals], first: float, last: float) -> list[Signals]:
    """The metrics that all GPUs have, at the times of the first one."""
    if not signals:
        return []
    time = signals[0].time[(signals[0].time >= first) & (signals[0].time <= last)]
    names = sorted(set.intersection(*(set(gpu.metrics) for gpu in signals)))
    return [
        Signals(time, {name: np.interp(time, gpu.time, gpu.metrics[name]) for name in names}, gpu.intervals) for gpu in signals
    ]


def _mean(signals: Sequence[Signals], waits: NDArray[np.bool_] | None) -> Signals:
    """The mean GPU; while all wait for a GPU, it is as little used as that GPU."""
    metrics = {name: np.mean([gpu.metrics[name] for gpu in signals], axis=0) for name in signals[0].metrics}
    if waits is not None:
        least = np.min([gpu.metrics["gpu_utilization"] for gpu in signals], axis=0)
        metrics["gpu_utilization"] = np.where(waits, least, metrics["gpu_utilization"])
    return replace(signals[0], metrics=metrics)


def _own(alone: Detection, signals: Signals, clock: ClockChoice, job: Detection) -> Detection:
    """The job's cycle on one GPU; what it shows by itself where it does not show that."""
    if _agree(alone, job):
        return replace(alone, cycles=job.cycles)  # what the cycles are is known best from all GPUs together
    if job.verdict != "epochs":
        return alone
    epochs = _followed(signals, clock, job)
    if not epochs:
        return alone
    period = float(np.median([epoch.end - epoch.start for epoch in epochs]))
    own = JobEpochs(period, epochs, job.confidence)
    return replace(job, period_s=period, epochs=epochs, jobs=(own,), stretches=(), scores=alone.scores)


def _contradicting(votes: Mapping[int, Detection], job: Detection, chosen: Collection[int]) -> dict[int, str]:
    """GPUs that are sure of a cycle which is none of the job's."""
    known = [cycle.period_s for cycle in job.cycles] or ([job.period_s] if job.period_s else [])
    reasons = {}
    for place, detection in votes.items():
        assert detection.period_s is not None
        if place not in chosen and not any(same(detection.period_s, each) for each in known):
            reasons[place] = f"shows a cycle of {detection.period_s:.3g} s, the others do not"
        elif not known:
            reasons[place] = f"shows a cycle of {detection.period_s:.3g} s, but the GPUs together show none"
    return reasons


def _apart(gpus: Sequence[Detection], signals: Sequence[Signals], job: Detection, idle: Collection[int]) -> dict[int, str]:
    """GPUs that do not show the job's cycle where most do, and those whose cycles begin at other times."""
    if job.verdict != "epochs" or job.period_s is None:
        return {}
    showing = [place for place, detection in enumerate(gpus) if _agree(detection, job) and detection.epochs]
    reasons = {}
    if 2 * len(showing) > len(gpus):
        silent = set(range(len(gpus))) - set(showing) - set(idle)
        reasons = dict.fromkeys(silent, "does not show the cycle of the others")
    theirs = np.array([epoch.start for epoch in job.epochs])
    late, scatter = {}, {}
    for place in showing:
        own = np.array([epoch.start for epoch in gpus[place].epochs])
        apart = own - theirs[np.abs(theirs - own[:, None]).argmin(axis=1)]
        late[place] = float(np.median(apart))
        scatter[place] = float(np.median(np.abs(apart - late[place])))
    usual = sorted(late.values())[(len(late) - 1) // 2] if late else 0.0  # of two GPUs the earlier is as expected
    for place in showing:
        least = max(LAG * job.period_s, SAMPLES * float(np.median(np.diff(signals[place].time))))
        off = late[place] - usual
        if scatter[place] > least:
            reasons[place] = "has cycles as long as the others', but they drift"
        elif abs(off) > least:
            reasons[place] = f"begins its cycles {abs(off):.2g} s {'after' if off > 0 else 'before'} the others"
    return reasons


def _waits(signals: Sequence[Signals]) -> NDArray[np.bool_] | None:
    """When all GPUs wait for a few: these rest, the others spin, which looks like work but for the power that they draw; (n,).

    None where no metric shows it.
    """
    power = next((name for name in ("power", "power_average") if signals and name in signals[0].metrics), None)
    if len(signals) < 2 or power is None or "gpu_utilization" not in signals[0].metrics:
        return None
    used, drawn = (np.array([gpu.metrics[name] for gpu in signals]) for name in ("gpu_utilization", power))
    rests = used < RESTING * np.percentile(used, 99, axis=1, keepdims=True)
    spins = (used >= SPINNING) & (drawn <= DRAWN * np.percentile(drawn, 99, axis=1, keepdims=True))
    few = rests.any(axis=0) & (rests.sum(axis=0) <= max(1, FEW * len(signals)))
    return np.asarray(few & (rests | spins).all(axis=0))


def _with_waits(job: Detection, time: Array, waits: NDArray[np.bool_]) -> Detection:
    """The answer with the waits among the GPUs: where all wait for a GPU that itself rests, its host most likely saves."""
    cycles = []
    for cycle in job.cycles:
        # Where the period changes, each cycle has its own part of the time.
        span = next((stretch for stretch in job.stretches if same(stretch.period_s, cycle.period_s)), None)
        inside = (time > span.start) & (time <= span.end) if span else np.zeros(time.size, dtype=bool)
        share = float(waits[inside].mean()) if inside.any() else 0.0
        if cycle.kind == "unknown" and share >= OFTEN:
            seconds = share * cycle.period_s
            text = f"for {seconds:.3g} s one GPU rests while all others spin and draw little power: they wait for it"
            cycle = replace(
                cycle,
                kind="checkpoint",
                evidence=text,
                idle_share=share,
                boundary_idle_s=seconds,
                kind_confidence=RIGHT_KIND["checkpoint"],
                k_open=(),
            )
        cycles.append(cycle)
    return replace(job, cycles=tuple(cycles))
