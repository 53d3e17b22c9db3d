"""One training job on several GPUs: their evidence together chooses the cycle, and each GPU keeps its own boundaries."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import clock as clocks
from .epochs import Detection
from .errors import InputError
from .methods import track
from .methods.track.periods import SAME
from .signals import Signals, clean

Array = NDArray[np.float64]

#: A GPU votes for the period that it shows with this confidence, the one at which `track` answers.
SURE = 0.6

#: The period with most votes needs so many times the votes for all others: two GPUs that disagree have none.
MAJORITY = 2.0

#: A GPU is idle that does less than this share of what the others do.
IDLE = 0.1

#: GPUs of one job begin their cycles together. One lags whose boundaries lie further from the others' than this share of the
#: period and so many samples; one drifts whose distance from them scatters by that.
LAG, SAMPLES = 0.05, 3.0

#: Traces of one job overlap for this share of the shortest.
TOGETHER = 0.5

#: A GPU that spins in a collective operation has this utilisation and more, and this share of its highest power and less: H100
#: that wait for a checkpoint draw 0.27 of it, 0.6 where power is a mean over the second around short steps.
SPINNING, DRAWN = 0.9, 0.65

#: A GPU rests at this share of its highest utilisation and less.
RESTING = 0.4

#: Of the GPUs that a job waits for, at most this share; such waits fill this share of a cycle at least.
FEW, OFTEN = 0.25, 0.02


@dataclass(frozen=True)
class JobDetection:
    """What was found on the GPUs of one job.

    Attributes:
        job: the answer for all of them; None where their times hardly overlap: these are no GPUs of one job.
        gpus: for each trace the boundaries of the job's cycle on this GPU; where it does not show it, what it shows by itself.
        odd: place of a GPU in `gpus` -> how it differs from the others, a sentence that follows its name.
    """

    job: Detection | None
    gpus: tuple[Detection, ...]
    odd: Mapping[int, str]


def detect_job(
    traces: Sequence[tuple[ArrayLike, Mapping[str, ArrayLike]]],
    *,
    clock: Literal["wall", "work", "auto"] = "auto",
    metric: str | Sequence[str] | None = None,
    **parameters: Any,
) -> JobDetection:
    """Find the epochs of one job in the telemetry of its GPUs, with the method `track`.

    Each GPU is searched by itself, and votes if it is sure. Then the mean of all GPUs that neither idle nor vote against the
    majority is searched: what single GPUs do cancels there.

    Args:
        traces: for each GPU time, (n,) unix seconds, and metrics, name -> (n,), as in `detect`.
        clock, metric, parameters: as in `detect`.

    Raises:
        InputError: no trace, and what `detect` refuses.
    """
    if not traces:
        raise InputError("a job has no trace: give at least one")
    signals = [clean(time, metrics) for time, metrics in traces]

    def found_in(one: Signals) -> Detection:
        return track.detect(one.select(metric), clocks.choose(one, clock), **parameters)

    alone = [found_in(one) for one in signals]
    if len(signals) == 1:
        return JobDetection(alone[0], tuple(alone), {})
    first, last = max(one.time[0] for one in signals), min(one.time[-1] for one in signals)
    if last - first < TOGETHER * min(one.time[-1] - one.time[0] for one in signals):
        return JobDetection(None, tuple(alone), {})
    votes = {place: found for place, found in enumerate(alone) if found.period_s is not None and found.confidence >= SURE}
    # One of eight H100 that saves has 0.05 of the utilisation of those that spin until it is done, and shows the cycle best.
    idle = _idle(signals) - votes.keys()
    elected = _elected(votes)
    against = votes.keys() - elected
    working = [place for place in range(len(signals)) if place not in idle]
    kept = [place for place in working if place not in against]
    together = _together([signals[place] for place in kept], first, last)
    job = found_in(_mean(together)) if together and together[0].metrics else alone[kept[0] if kept else 0]
    if 2 * len(elected) > len(working) and not _agree(job, alone[min(elected)]):
        job = max((alone[place] for place in elected), key=lambda found: found.confidence)
    if votes and not elected:
        confidence = job.confidence / 2
        job = Detection("none", None, None, (), confidence, "track", job.clock, reason="rival_cycles")
    job = _with_waits(job, together)
    gpus = [_own(found, one, job, clock, metric) for found, one in zip(alone, signals, strict=True)]
    odd = {place: reason for place in range(len(gpus)) if (reason := _reason(place, gpus, alone, job, idle, votes, signals))}
    return JobDetection(job, tuple(gpus), odd)


def _idle(signals: Sequence[Signals]) -> set[int]:
    """Places of the GPUs that hardly do anything while the others work."""
    name = signals[0].main()
    if any(name not in one.metrics for one in signals):
        return set()
    levels = [one.metrics[name] for one in signals]
    floor = min(float(np.percentile(level, 1)) for level in levels) if name.startswith("power") else 0.0
    means = np.array([level.mean() - floor for level in levels])
    return set(np.flatnonzero(means < IDLE * means.max()).tolist())


def _elected(votes: Mapping[int, Detection]) -> set[int]:
    """The voters for the period that has a clear majority; none without one."""
    best: set[int] = set()
    most = rest = 0.0
    total = sum(found.confidence for found in votes.values())
    for found in votes.values():
        group = {place for place, other in votes.items() if _agree(found, other)}
        weight = sum(votes[place].confidence for place in group)
        if weight > most:
            best, most, rest = group, weight, total - weight
    return best if most >= MAJORITY * rest else set()


def _agree(one: Detection, other: Detection) -> bool:
    """Whether two answers have one period."""
    if one.period_s is None or other.period_s is None:
        return False
    return abs(float(np.log(one.period_s / other.period_s))) <= SAME


def _together(signals: Sequence[Signals], first: float, last: float) -> list[Signals]:
    """The metrics that all GPUs have, at the times of the first one."""
    if not signals:
        return []
    time = signals[0].time[(signals[0].time >= first) & (signals[0].time <= last)]
    names = sorted(set.intersection(*(set(one.metrics) for one in signals)))
    return [
        Signals(time, {name: np.interp(time, one.time, one.metrics[name]) for name in names}, one.intervals) for one in signals
    ]


def _mean(signals: Sequence[Signals]) -> Signals:
    metrics = {name: np.mean([one.metrics[name] for one in signals], axis=0) for name in signals[0].metrics}
    return replace(signals[0], metrics=metrics)


def _own(
    alone: Detection,
    signals: Signals,
    job: Detection,
    clock: Literal["wall", "work", "auto"],
    metric: str | Sequence[str] | None,
) -> Detection:
    """The job's cycle on one GPU."""
    if job.period_s is None or _agree(alone, job):
        return alone
    epochs = track.epochs_of(signals.select(metric), clocks.choose(signals, clock), job.period_s)
    if len(epochs) < 2 or job.verdict != "epochs":
        return alone
    period = float(np.median([epoch.end - epoch.start for epoch in epochs]))
    return replace(
        job,
        period_s=period,
        epochs=epochs,
        jobs=(replace(job.jobs[0], period_s=period, epochs=epochs),),
        stretches=(),
        scores=alone.scores,
    )


def _reason(
    place: int,
    gpus: Sequence[Detection],
    alone: Sequence[Detection],
    job: Detection,
    idle: Collection[int],
    votes: Mapping[int, Detection],
    signals: Sequence[Signals],
) -> str | None:
    """How a GPU differs from the others, or None."""
    if place in idle:
        return "is idle"
    voted = votes.get(place)
    known = [cycle.period_s for cycle in job.cycles]
    if voted is not None and voted.period_s is not None:
        others = [found for other, found in votes.items() if other != place]
        if job.period_s is None:
            if others and not all(_agree(voted, found) for found in others):
                return f"shows a cycle of {voted.period_s:.3g} s, others another one"
            return (
                None if len(votes) > 1 or (not others and len(gpus) == 1) else f"alone shows a cycle, of {voted.period_s:.3g} s"
            )
        if all(abs(np.log(voted.period_s / period)) > SAME for period in known or [job.period_s]):
            return f"shows a cycle of {voted.period_s:.3g} s instead"
    if job.period_s is None or job.verdict != "epochs":
        return None
    own = gpus[place]
    if not _agree(own, job):
        shows = sum(_agree(found, job) for found in gpus)
        return "does not show the cycle of the others" if 2 * shows > len(gpus) else None
    boundaries, theirs = _starts(own), _starts(job)
    near = theirs[np.abs(theirs[None] - boundaries[:, None]).argmin(axis=1)]
    apart = boundaries - near
    late = float(np.median(apart))
    least = max(LAG * job.period_s, SAMPLES * float(np.median(np.diff(signals[place].time))))
    if float(np.median(np.abs(apart - late))) > least:
        return "has cycles of the same length that drift against the others'"
    if abs(late) > least:
        return f"begins its cycles {abs(late):.2g} s {'after' if late > 0 else 'before'} the others"
    return None


def _starts(found: Detection) -> Array:
    return np.array([epoch.start for epoch in found.epochs])


def _with_waits(job: Detection, signals: Sequence[Signals]) -> Detection:
    """The answer with what the GPUs say of each other: all wait while one of them does something on its host, most likely saves."""
    if len(signals) < 2 or not job.cycles or not {"gpu_utilization", "power"} <= {_kind(name) for name in signals[0].metrics}:
        return job
    utilisation = np.array([one.metrics["gpu_utilization"] for one in signals])
    drawn = np.array([next(values for name, values in one.metrics.items() if _kind(name) == "power") for one in signals])
    rests = utilisation < RESTING * np.percentile(utilisation, 99, axis=1, keepdims=True)
    spins = (utilisation >= SPINNING) & (drawn <= DRAWN * np.percentile(drawn, 99, axis=1, keepdims=True))
    few = (rests.sum(axis=0) >= 1) & (rests.sum(axis=0) <= max(1, FEW * len(signals)))
    waits = few & (rests | spins).all(axis=0)
    time = signals[0].time
    cycles = []
    for cycle in job.cycles:
        stretch = next((one for one in job.stretches if abs(np.log(one.period_s / cycle.period_s)) <= SAME), None)
        spans = [(stretch.start, stretch.end)] if stretch else [(job.epochs[0].start, job.epochs[-1].end)] if job.epochs else []
        inside = (
            np.any([(time > begin) & (time <= end) for begin, end in spans], axis=0) if spans else np.zeros(time.size, bool)
        )
        share = float(waits[inside].mean()) if inside.any() else 0.0
        if cycle.kind != "unknown" or share < OFTEN:
            cycles.append(cycle)
            continue
        which = int(rests[:, inside & waits].mean(axis=1).argmax())
        ratio = float(np.median((drawn / np.percentile(drawn, 99, axis=1, keepdims=True))[:, inside & waits]))
        text = (
            f"for {share * cycle.period_s:.3g} s of each one GPU rests while the {len(signals) - 1} others spin at "
            f"{ratio:.0%} of their highest power: they wait for it"
        )
        cycles.append(
            replace(cycle, kind="checkpoint", evidence=text, idle_share=share, boundary_idle_s=share * cycle.period_s)
        )
    return replace(job, cycles=tuple(cycles))


def _kind(name: str) -> str:
    return "power" if name in ("power", "power_average") else name
