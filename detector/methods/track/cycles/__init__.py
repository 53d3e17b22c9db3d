"""What the cycles of a job are: steps, checkpoints, evaluations, epochs, by what happens at their boundaries.

And how much of each the GPU waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.clock import GPU_METRICS
from epochcast.detector.epochs import Cycle, Kind
from epochcast.detector.methods.track.cycles.activity import TraceActivity, activity, saves_of
from epochcast.detector.methods.track.cycles.events import CycleEvent, events_of
from epochcast.detector.methods.track.cycles.mean_cycle import MeanCycle, mean_cycle, work_metrics
from epochcast.detector.methods.track.cycles.steps import step
from epochcast.detector.methods.track.cycles.validation import LEAST, validation_of
from epochcast.detector.signals import Signals

Array = NDArray[np.float64]

# By choice where nothing else is said, set by hand, here and beside; lab/speed/detector/cycles.py measures what they name.

#: What happens at the end of an epoch takes so much longer than at the evaluations within it, and a bin; or the device rests
#: for longer there, by this part of a bin or of a step, and so many samples.
LONGER, PART, SAMPLES = 1.25, 0.5, 3

#: Lengths of this distance (logarithm) are of one cycle: with a save after some, they differ.
SIMILAR = 0.2

#: Alike events divide a cycle evenly if their longest distance is at most so many times the shortest.
UNEVEN = 1.8

#: Steps of this autocorrelation are as sure as the cycle around them.
SURE = 0.8

#: Metrics named as evidence, at most; a ratio beyond compares with next to nothing.
NAMED, RATIO = 2, 100.0

#: Links between GPUs, and how much more they carry at the boundary of a step than within it: gradients go once per step.
LINKS, GRADIENTS = ("nvlink_tx", "nvlink_rx"), 10.0

#: A part of a cycle that is longer than so many steps is no group of them. By choice.
STEPS = 4

#: Share of visible cycles named correctly in 200 simulated jobs, before the rules above (docs/accuracy.md); not of real traces.
RIGHT_KIND: dict[Kind, float] = {"step": 0.94, "epoch": 0.84, "checkpoint": 0.84, "evaluation": 0.57, "unknown": 0.0}


def name_cycles(
    signals: Signals,
    boundaries: Array,
    period: float,
    confidence: float,
    k_open: tuple[int, ...] = (),
    inner: Iterable[Array] = (),
) -> tuple[Cycle, ...]:
    """The cycles of a job, from short to long, where one of them is known.

    Args:
        signals: the trace.
        boundaries: (k,) unix seconds of the cycle that is known, k >= 2.
        period: of it [s].
        confidence: of the period, 0..1; nested cycles have it at most.
        k_open: how many epochs the known cycle may hold by what recurs in its parts.
        inner: boundaries [unix s] of shorter cycles that it may be made of.
    """
    inside = (signals.time > boundaries[0]) & (signals.time <= boundaries[-1])
    does = activity(signals, inside)
    steps = step(signals, work_metrics(signals), boundaries)
    step_s = None if steps is None else steps[0]
    mean = mean_cycle(signals, does, boundaries, step_s)
    share = None if does.idle is None else float(does.idle[inside].mean())
    text = "too few samples in a cycle to see what happens during it"
    cycles = [Cycle("unknown", period, confidence, text, share, None)]
    if mean is not None:
        *shorter, known = _nested(mean, period, confidence, does, share)
        cycles = [*shorter, *(_longer(signals, does, boundaries, known, step_s) or [known])]
        for marks in inner if len(cycles) == 1 else ():
            if (parts := mean_cycle(signals, does, marks, step_s, boundaries)) is None:
                continue
            made_of = _nested(mean, period, confidence, does, share, (parts, float(np.median(np.diff(marks)))))
            if len(made_of) > 1 and made_of[-1].kind != "unknown":
                cycles = made_of
                break
        if not GPU_METRICS & signals.metrics.keys():
            cycles = [known]  # what a host does within an epoch may be anything
    # Where a cycle within is another, what recurs in it is no epoch.
    open_ = k_open if len(cycles) == 1 else ()
    cycles = [_judged(cycle, signals, boundaries, mean, open_, step_s) for cycle in cycles]
    if steps is not None:
        outer = min(cycles, key=lambda cycle: cycle.period_s)
        text = (
            f"about {outer.period_s / steps[0]:.0f} in each {_noun(outer.kind)}, strictly even (autocorrelation {steps[1]:.2f})"
        )
        sure = confidence * min(1.0, steps[1] / SURE)
        cycles.append(Cycle("step", steps[0], sure, text, share, None, RIGHT_KIND["step"]))
    return tuple(sorted(cycles, key=lambda cycle: cycle.period_s))


def _judged(
    cycle: Cycle, signals: Signals, boundaries: Array, mean: MeanCycle | None, k_open: tuple[int, ...], step_s: float | None
) -> Cycle:
    """The cycle with its kind where that is sure: an epoch only where its parts are refuted, or something says so."""
    kind, text, open_ = cycle.kind, cycle.evidence, k_open
    if kind == "epoch" and mean is not None:
        share = sum(event.length for event in events_of(mean)) / mean.rests.size
        if any(mean.changes.get(link, 0.0) > GRADIENTS for link in LINKS):
            kind = "step"
            text += ": gradients go between the GPUs once in it"
        elif share < LEAST:
            open_ = tuple(sorted({*open_, *(k for k in range(2, 13) if LEAST <= k * share <= 1 / 4)}))
            text += f", {share:.0%} of it: it may come after several epochs"
        else:
            # What recurs within is its steps, or is longer: six epochs and an evaluation.
            open_ = tuple(k for k in open_ if step_s is not None and cycle.period_s / k > STEPS * step_s)
    elif kind == "unknown":
        validation = validation_of(signals, boundaries)
        if validation is not None:
            kind, text, open_ = "epoch", validation, ()
    if kind == "epoch" and open_:
        kind = "unknown"
    return replace(cycle, kind=kind, evidence=text, kind_confidence=RIGHT_KIND[kind], k_open=open_ if kind == "unknown" else ())


def name_steps(signals: Signals, boundaries: Array, period: float, confidence: float) -> tuple[Cycle, ...]:
    """The cycle of a job of which only strictly even, short cycles are known; arguments as `name_cycles`."""
    inside = (signals.time > boundaries[0]) & (signals.time <= boundaries[-1])
    idle = activity(signals, inside).idle
    share = None if idle is None else float(idle[inside].mean())
    text = f"{boundaries.size - 1} short cycles and nothing longer around them: steps, inference or short epochs"
    return (Cycle("unknown", period, confidence, text, share, None),)


def _noun(kind: Kind) -> str:
    return "cycle" if kind == "unknown" else kind


def _nested(
    mean: MeanCycle,
    period: float,
    confidence: float,
    does: TraceActivity,
    share: float | None,
    parts: tuple[MeanCycle, float] | None = None,
) -> list[Cycle]:
    """The known cycle, after the shorter one that it is made of: where alike events divide it, or one of a given mean course
    and period [s].
    """
    seconds = period / mean.rests.size
    known, events = does.out is not None, events_of(mean)

    def cycle(kind: Kind, length: float, event: CycleEvent | None, more: str = "") -> Cycle:
        text = "no metric shows what happens at its boundary" if event is None else _sentence(event, mean, seconds, does)
        return Cycle(kind, length, confidence, text + more, share, None if event is None else event.rests * seconds)

    last = _largest(events)
    if last is None:
        return [cycle("unknown", period, None)]
    inner = [event for event in events if event is not last]
    distances = np.diff([*(event.start for event in events), events[0].start + mean.rests.size])
    length, many = float(np.median(distances)) * seconds, len(events)
    if parts is not None:
        length, many = parts[1], int(period / parts[1])
        ratio = length / parts[0].rests.size / seconds  # of its bins to these
        kin = _is_alike(parts[0].changes, mean.changes)
        inner = [
            replace(event, other=int(np.ceil(event.other * ratio * kin)), rests=event.rests * ratio, saves=event.saves * ratio)
            for event in [_largest(events_of(parts[0]))]
            if event is not None
        ]
    even = parts is not None or distances.max() <= UNEVEN * distances.min()
    least = max(PART, SAMPLES / mean.bin_samples, PART * mean.step_bins)
    kinds = _two(inner, last, known, least) if inner and even else None
    if kinds is None:
        return [cycle(_alone(last, known), period, last)]
    return [cycle(kinds[0], length, inner[0], f"; {many} in each {_noun(kinds[1])}"), cycle(kinds[1], period, last)]


def _largest(events: Sequence[CycleEvent]) -> CycleEvent | None:
    """Where most happens."""
    return max(events, key=lambda event: event.saves + event.other + event.rests, default=None)


def _is_alike(inner: Mapping[str, float], outer: Mapping[str, float]) -> bool:
    """Whether two are one kind of other work by how the metrics change: the inner has at least half of the outer's change."""
    logs = np.log(np.maximum([(inner.get(name, 1.0), ratio) for name, ratio in outer.items()], 1e-3))
    return bool(outer) and bool(logs[:, 0] @ logs[:, 1] >= logs[:, 1] @ logs[:, 1] / 2)


def _alone(event: CycleEvent, known: bool) -> Kind:
    """What a cycle is that has one event."""
    if event.other:
        return "epoch"
    if event.saved and event.saves >= event.rests / 2:
        return "checkpoint"
    return "epoch" if known else "unknown"


def _two(inner: Sequence[CycleEvent], last: CycleEvent, known: bool, least: float) -> tuple[Kind, Kind] | None:
    """What a shorter cycle and that around it are, whose ends are the events `inner` and `last`; None where these are no
    kin. `least`: bins of rest that are a difference.
    """
    works, saves = all(event.other for event in inner), all(event.saved for event in inner)
    if works and last.other:
        other = float(np.median([event.other for event in inner]))
        waits = float(np.median([event.waits for event in inner]))
        # Each is known to half a bin. What ends an epoch rests, too: only where the inner ones do not is a rest the last one's.
        if last.other > LONGER * other + 1 or (known and last.waits > waits + least > 2 * waits):
            return "evaluation", "epoch"
        if not known and last.waits > waits + least:
            return "unknown", "unknown"  # a save, or the end of an epoch
        return "epoch", "checkpoint" if last.saved and not saves else "unknown"
    if any(event.other for event in inner):
        return None
    if last.other:
        if saves:
            return "checkpoint", "epoch"
        alike = known and min(event.rests for event in inner) >= last.rests / 2
        return ("epoch", "evaluation") if alike else None
    if saves:
        return "checkpoint", "unknown"
    alike = min(event.rests for event in inner) >= last.waits / 2
    return ("epoch", "checkpoint") if alike and last.saved else None


def _sentence(event: CycleEvent, mean: MeanCycle, seconds: float, does: TraceActivity) -> str:
    parts = []
    if event.other:
        changes = ", ".join(_change(name, ratio) for name, ratio in list(mean.changes.items())[:NAMED])
        parts.append(f"other work for {_two_digits(event.other * seconds)} s ({changes})")
    if event.rests:
        parts.append(f"the GPU rests for {_two_digits(event.rests * seconds)} s")
    if event.saved:
        parts.append(f"{does.out} is far above usual for {_two_digits(event.saves * seconds)} s of it")
    elif event.rests and does.out is None:
        parts.append("no metric shows whether it saves")
    return "at its boundary " + ", ".join(parts)


def _two_digits(value: float) -> str:
    return f"{float(f'{value:.2g}'):g}"  # 120, which .2g alone would write as 1.2e+02


def _change(name: str, ratio: float) -> str:
    if not 1 / RATIO < ratio < RATIO:
        return f"{name} {'only then' if ratio > 1 else 'at rest'}"
    return f"{name} x {ratio:.2g}"


def _longer(signals: Signals, does: TraceActivity, boundaries: Array, known: Cycle, step_s: float | None) -> list[Cycle]:
    """The known cycle and a longer one that ends with a save and is made of it; nothing where there is none."""
    period = known.period_s
    saves = saves_of(signals, does, boundaries)
    if saves is None or does.saves is None:
        return []
    length = float(np.median(np.diff(saves)))
    longer = mean_cycle(signals, does, saves, step_s)
    if longer is not None:
        both = _nested(longer, length, known.confidence, does, known.idle_share)
        clear = len(both) > 1 and (both[1].kind != "unknown" or both[0].kind == "unknown")
        if clear and abs(np.log(both[0].period_s / period)) <= SIMILAR:
            return [replace(both[0], period_s=period), both[1]]
    text = f"every {length / period:.0f} cycles the GPU rests while {does.out} is far above usual"
    seconds = int(does.saves.sum()) * float(np.median(np.diff(signals.time))) / saves.size
    return [known, Cycle("checkpoint", length, known.confidence, text, known.idle_share, seconds)]
