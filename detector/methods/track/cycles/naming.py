"""What the cycles of a job are: steps, checkpoints, evaluations, epochs, by what happens at their boundaries."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....epochs import Cycle, Kind
from ....signals import Signals
from .activity import Activity, activity
from .profile import STEPS, Profile, circular_runs, profile, work_metrics
from .steps import step

Array = NDArray[np.float64]

#: Two kinds of work are so many standard deviations apart (the halves of one noise: 2.7), and the metric that changes most does
#: so by this much (logarithm).
APART, CHANGED = 4.5, 0.08

#: A run of other work below this share of the longest one is noise; so is a run of rest (the first steps of a cycle begin together).
SHORT = 0.3

#: At a boundary the device rests in half of the cycles, and in so many more than elsewhere in the cycle.
RESTS, MORE = 0.5, 0.3

#: Beside such bins, what has so much more rest than elsewhere belongs to the same event: saves in every second cycle.
BESIDE = 0.2

#: What happens at the end of an epoch takes so much longer, and so many bins, than at the evaluations within it.
LONGER, BINS = 1.25, 2

#: So few bins of other work beside a longer rest are its edges.
EDGE = 2

#: Saves are regular if this share of their distances is within 15 % of the median; a second one within a tenth of a cycle is the
#: same.
REGULAR, NEAR, SAME_SAVE = 0.6, 0.15, 0.1

#: Steps of this autocorrelation are as sure as the cycle around them.
SURE = 0.8

#: Metrics named as evidence, at most.
NAMED = 2


@dataclass(frozen=True)
class Event:
    """What happens at one place of the mean cycle.

    Attributes:
        start: bin.
        other, rests, saves: bins of another kind of work, of rest, and of these of saving.
    """

    start: int
    other: int
    rests: float
    saves: float

    @property
    def saved(self) -> bool:
        """Whether something is saved, for half a bin or more."""
        return self.saves >= 0.5

    @property
    def waits(self) -> float:
        """Bins of rest in which nothing is saved."""
        return self.rests - self.saves


def name_cycles(signals: Signals, boundaries: Array, confidence: float) -> tuple[Cycle, ...]:
    """The cycles of a job of which one was found, from short to long.

    Args:
        signals: the trace.
        boundaries: (k,) unix seconds of the cycle that was found, k >= 2.
        confidence: of its period, 0..1; nested cycles have it at most.
    """
    period = float(np.median(np.diff(boundaries)))
    inside = (signals.time > boundaries[0]) & (signals.time <= boundaries[-1])
    does = activity(signals, inside)
    steps = step(signals, work_metrics(signals), boundaries)
    mean = profile(signals, does, boundaries, None if steps is None else steps[0])
    share = None if does.idle is None else float(does.idle[inside].mean())
    found = []
    if mean is not None:
        bins = 0.0 if steps is None else steps[0] / period * mean.rests.size
        found = _nested(mean, _events(mean, bins), period, confidence, does, share)
    found = found or [Cycle("unknown", period, confidence, "too few samples in a cycle to see what happens in it", share, None)]
    if (saves := _saves(signals, does, inside, period)) is not None and saves[0] > 1.5 * period:
        every, regular = saves
        text = f"every {every / period:.0f} cycles the GPU rests while {does.out} is far above what is usual: it saves"
        seconds = float(np.count_nonzero(does.saves & inside) if does.saves is not None else 0) / np.count_nonzero(inside) * every
        found.append(Cycle("checkpoint", every, confidence * regular, text, share, seconds))
    if steps is not None:
        outer = min(found, key=lambda cycle: cycle.period_s)
        text = f"about {outer.period_s / steps[0]:.0f} in each {_noun(outer.kind)}, strictly even (autocorrelation {steps[1]:.2f})"
        found.append(Cycle("step", steps[0], confidence * min(1.0, steps[1] / SURE), text, share, None))
    return tuple(sorted(found, key=lambda cycle: cycle.period_s))


def name_steps(signals: Signals, boundaries: Array, confidence: float) -> tuple[Cycle, ...]:
    """The cycle of a job of which only strictly even, short cycles were found; arguments as `name_cycles`."""
    lengths = np.diff(boundaries)
    inside = (signals.time > boundaries[0]) & (signals.time <= boundaries[-1])
    idle = activity(signals, inside).idle
    share = None if idle is None else float(idle[inside].mean())
    text = f"{lengths.size} of them, strictly even, and nothing longer around them"
    return (Cycle("step", float(np.median(lengths)), confidence, text, share, None),)


def _noun(kind: Kind) -> str:
    return "cycle" if kind == "unknown" else kind


def _events(mean: Profile, step_bins: float) -> list[Event]:
    """What happens in a mean cycle beside the usual work, in order of the bins."""
    n = mean.rests.size
    changes = [abs(float(np.log(max(ratio, 1e-3)))) for ratio in mean.changes.values()]
    other = mean.other & (mean.apart >= APART and max(changes, default=0.0) >= CHANGED)
    rests = mean.rests >= max(RESTS, float(np.median(mean.rests)) + MORE)
    if np.median(mean.rests) >= RESTS:  # it rests for most of the cycle
        rests = mean.rests >= RESTS
    for what, least in ((other, STEPS * step_bins), (rests, 0.0)):
        runs = circular_runs(what)
        longest = max((last - first for first, last in runs), default=0)
        for first, last in runs:
            if last - first < max(least, SHORT * longest):
                what[np.arange(first, last) % n] = False
    happens = other | rests
    beside = happens | (mean.rests > np.median(mean.rests) + BESIDE)
    for first, last in circular_runs(beside):
        bins = np.arange(first, last) % n
        happens[bins] = happens[bins].any()
    for hole in (1, 2):  # a bin between an evaluation and the rest after it is partly both
        happens |= np.roll(happens, hole) & np.roll(happens, -1) | np.roll(happens, 1) & np.roll(happens, -hole)
    events = []
    for first, last in circular_runs(happens):
        bins = np.arange(first, last) % n
        works, rested = int(other[bins].sum()), float(mean.rests[bins[rests[bins]]].sum())
        if works <= EDGE and works < rested / 3:
            works = 0
        events.append(Event(first % n, works, rested, float(mean.saves[bins].sum())))
    largest = max((event.rests for event in events), default=0.0)
    events = [event for event in events if event.other or event.rests >= min(largest, step_bins)]
    return sorted(events, key=lambda event: event.start)


def _nested(
    mean: Profile, events: Sequence[Event], period: float, confidence: float, does: Activity, share: float | None
) -> list[Cycle]:
    """The cycle that was found, and the one that it is made of where alike events divide it."""
    seconds = period / mean.rests.size
    known = does.out is not None

    def cycle(kind: Kind, length: float, event: Event | None, more: str = "") -> Cycle:
        text = "nothing tells what happens at its boundary" if event is None else _sentence(event, mean, seconds, does)
        return Cycle(kind, length, confidence, text + more, share, None if event is None else event.rests * seconds)

    if not events:
        return [cycle("unknown", period, None)]
    last = max(events, key=lambda event: event.saves + event.other + event.rests)
    inner = [event for event in events if event is not last]
    if not inner:
        return [cycle(_alone(last, known), period, last)]
    starts = [event.start for event in events]
    length = float(np.median(np.diff([*starts, starts[0] + mean.rests.size]))) * seconds
    kinds = _two(inner, last, known)
    usual = inner[0]
    many = f"; {len(events)} in each {_noun(kinds[1])}"
    return [cycle(kinds[0], length, usual, many), cycle(kinds[1], period, last)]


def _alone(event: Event, known: bool) -> Kind:
    """What a cycle is that has one event."""
    if event.other:
        return "epoch"
    if event.saved and event.saves >= event.rests / 2:
        return "checkpoint"
    return "epoch" if known else "unknown"


def _two(inner: Sequence[Event], last: Event, known: bool) -> tuple[Kind, Kind]:
    """What a cycle and the shorter one in it are, whose ends are the events `last` and `inner`."""
    works, saves = all(event.other for event in inner), all(event.saved for event in inner)
    if works and last.other:
        other = float(np.median([event.other for event in inner]))
        waits = float(np.median([event.waits for event in inner]))
        if last.other > LONGER * other + 1 or last.waits > waits + BINS:
            return "evaluation", "epoch"
        return "epoch", "checkpoint" if last.saved and not saves else "unknown"
    if any(event.other for event in inner):
        return "unknown", _alone(last, known)
    if last.other:
        if saves:
            return "checkpoint", "epoch"
        alike = known and min(event.rests for event in inner) >= last.rests / 2
        return ("epoch", "evaluation") if alike else ("unknown", _alone(last, known))
    if saves:
        return "checkpoint", "unknown"
    return "epoch" if known else "unknown", "checkpoint" if last.saved else "unknown"


def _sentence(event: Event, mean: Profile, seconds: float, does: Activity) -> str:
    parts = []
    if event.other:
        changes = ", ".join(f"{name} x {ratio:.2g}" for name, ratio in list(mean.changes.items())[:NAMED])
        parts.append(f"other work for {event.other * seconds:.2g} s ({changes})")
    if event.rests:
        parts.append(f"the GPU rests for {event.rests * seconds:.2g} s")
    if event.saved:
        parts.append(f"{does.out} is far above what is usual for {event.saves * seconds:.2g} s of it")
    elif event.rests and does.out is None:
        parts.append("no metric tells whether it saves")
    return "at its boundary " + ", ".join(parts)


def _saves(signals: Signals, does: Activity, inside: NDArray[np.bool_], period: float) -> tuple[float, float] | None:
    """Seconds from one save to the next, and the share of these distances that are usual; None where they are not regular."""
    if does.saves is None:
        return None
    edges = np.flatnonzero(np.diff(np.concatenate([[False], does.saves & inside, [False]]).astype(np.int8)))
    begins, ends = signals.time[edges[::2]], signals.time[edges[1::2] - 1]
    begins = begins[np.append(True, begins[1:] - ends[:-1] > SAME_SAVE * period)[: begins.size]]
    if begins.size < 3:
        return None
    distances = np.diff(begins)
    usual = float(np.median(distances))
    regular = float(np.mean(np.abs(distances / usual - 1) <= NEAR))
    return (usual, regular) if regular >= REGULAR else None
