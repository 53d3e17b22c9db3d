"""What the cycles of a job are: steps, checkpoints, evaluations, epochs, by what happens at their boundaries."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....epochs import Cycle, Kind
from ....filters import running_mean
from ....signals import Signals
from .activity import Activity, activity
from .profile import Profile, circular_runs, profile, work_metrics
from .steps import step

Array = NDArray[np.float64]

#: Two kinds of work are so many standard deviations apart (the halves of one noise: 2.7), and the metric that changes most does
#: so by this much (logarithm).
APART, CHANGED = 5.5, 0.08

#: A run of other work below this share of the longest one is noise; so is a run of rest.
SHORT = 0.3

#: At a boundary the device rests in half of the cycles, and in so many more than elsewhere in the cycle.
RESTS, MORE = 0.5, 0.3

#: Beside such bins, what has so much more rest than elsewhere belongs to the same event: saves in every second cycle.
BESIDE = 0.2

#: What happens at the end of an epoch takes so much longer than at the evaluations within it, or the device rests for longer
#: there, by this part of a bin and so many samples.
LONGER, PART, SAMPLES = 1.25, 0.5, 3

#: Another kind of work takes this part of a step at least; among steps a rest, this part of the longest.
LEAST = 0.8

#: So many bins between two things that happen do not part them.
HOLE = 2

#: So few bins of other work beside a longer rest are its edges.
EDGE = 2

#: A longer cycle has at most so many of the shorter one. What recurs at its boundaries is so clear that its lower percentile is
#: above the higher one of what is at the others.
MOST, OWN, OTHERS = 10, 20, 90

#: Saves are regular if this share of their distances is that close to the median; a second one within a tenth of a cycle is the
#: same. Lengths of this distance (logarithm) are of one cycle: with a save after some, they differ.
REGULAR, NEAR, SAME_SAVE, SIMILAR = 0.6, 0.15, 0.1, 0.2

#: Steps of this autocorrelation are as sure as the cycle around them.
SURE = 0.8

#: Metrics named as evidence, at most.
NAMED = 2


@dataclass(frozen=True)
class Event:
    """What happens at one place of the mean cycle.

    Attributes:
        start, length: bins.
        other, rests, saves: bins of another kind of work, of rest, and of these of saving.
    """

    start: int
    length: int
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
        found = _nested(mean, _bins(steps, mean, period), period, confidence, does, share)
        found = _longer(signals, does, boundaries, found[-1], steps) or found
    found = found or [Cycle("unknown", period, confidence, "too few samples in a cycle to see what happens in it", share, None)]
    if steps is not None:
        outer = min(found, key=lambda cycle: cycle.period_s)
        text = (
            f"about {outer.period_s / steps[0]:.0f} in each {_noun(outer.kind)}, strictly even (autocorrelation {steps[1]:.2f})"
        )
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
    base = float(np.median(mean.rests))
    rests = mean.rests >= (base + MORE if base < RESTS - MORE else RESTS)
    width = max(1, round(step_bins))
    happens = _without_holes(other, width) if width > HOLE else other
    # Where steps show, each rests for a part of it, and the first ones of all cycles together.
    for what, least, share in ((happens, LEAST * step_bins, SHORT), (rests, 0.0, LEAST if width > HOLE else SHORT)):
        runs = circular_runs(what)
        longest = max((last - first for first, last in runs), default=0)
        for first, last in runs:
            if last - first < max(least, share * longest):
                what[np.arange(first, last) % n] = False
    other = happens.copy()
    happens = happens | rests
    smooth = running_mean(np.tile(mean.rests, 3), width)[n : 2 * n]
    beside = happens | (smooth > np.median(smooth) + BESIDE)
    for first, last in circular_runs(beside):
        bins = np.arange(first, last) % n
        happens[bins] = happens[bins].any()
    happens = _without_holes(happens, max(HOLE, width))
    events = []
    for first, last in circular_runs(happens):
        works = int(other[np.arange(first, last) % n].sum())
        # An event's rest is smeared where it is not always as far from the boundary.
        bins = np.arange(first - EDGE, last + EDGE) % n
        saved = float(mean.saves[bins].sum())
        rested = max(saved, float((mean.rests[bins] - (base if base < RESTS else 0.0)).clip(0).sum()))
        if works <= EDGE and works < rested / 3:
            works = 0
        events.append(Event(first % n, last - first, works, rested if rested >= PART else 0.0, saved))
    largest = max(events, key=lambda event: (event.other, event.rests), default=None)
    events = [event for event in events if event.other or event.rests >= step_bins or event is largest]
    return sorted(events, key=lambda event: event.start)


def _without_holes(mask: NDArray[np.bool_], longest: int) -> NDArray[np.bool_]:
    """A circle with holes of up to so many bins filled."""
    filled = mask.copy()
    for first, last in circular_runs(~mask):
        if last - first <= longest:
            filled[np.arange(first, last) % mask.size] = mask.any()
    return filled


def _nested(
    mean: Profile, step_bins: float, period: float, confidence: float, does: Activity, share: float | None
) -> list[Cycle]:
    """The cycle that was found, and the one that it is made of where alike events divide it."""
    seconds = period / mean.rests.size
    known, events = does.out is not None, _events(mean, step_bins)

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
    kinds = _two(inner, last, known, max(PART, SAMPLES * mean.interval_s / seconds, PART * step_bins))
    if kinds is None:
        return [cycle(_alone(last, known), period, last)]
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


def _two(inner: Sequence[Event], last: Event, known: bool, least: float) -> tuple[Kind, Kind] | None:
    """What a shorter cycle and that around it are, whose ends are the events `inner` and `last`; None where these are no
    kin. `least`: bins of rest that are a difference.
    """
    works, saves = all(event.other for event in inner), all(event.saved for event in inner)
    if works and last.other:
        other = float(np.median([event.other for event in inner]))
        waits = float(np.median([event.waits for event in inner]))
        if last.other > LONGER * other + 1 or (known and last.waits > waits + least):
            return "evaluation", "epoch"
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
    return ("epoch", "checkpoint" if last.saved else "unknown") if known and alike else None


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


def _bins(steps: tuple[float, float] | None, mean: Profile, period: float) -> float:
    """Bins of a mean cycle that a step takes; 0 where none shows."""
    return 0.0 if steps is None else steps[0] / period * mean.rests.size


def _longer(
    signals: Signals, does: Activity, boundaries: Array, found: Cycle, steps: tuple[float, float] | None
) -> list[Cycle]:
    """The cycle that was found, and a longer one that is made of it; none where there is none."""
    period = found.period_s
    saves = _saves(signals, does, boundaries)
    around = _recurring(signals, does, boundaries) if saves is None else saves
    if around is None:
        return []
    length = float(np.median(np.diff(around)))
    mean = profile(signals, does, around, None if steps is None else steps[0])
    if mean is not None:
        both = _nested(mean, _bins(steps, mean, length), length, found.confidence, does, found.idle_share)
        if len(both) > 1 and both[1].kind != "unknown" and abs(np.log(both[0].period_s / period)) <= SIMILAR:
            return [replace(both[0], period_s=period), both[1]]
    if saves is None:
        return []
    saved = 0 if does.saves is None else int(does.saves.sum())
    text = f"every {length / period:.0f} cycles the GPU rests while {does.out} is far above what is usual"
    seconds = saved * float(np.median(np.diff(signals.time))) / around.size
    return [found, Cycle("checkpoint", length, found.confidence, text, found.idle_share, seconds)]


def _saves(signals: Signals, does: Activity, boundaries: Array) -> Array | None:
    """Ends of the saves [unix s] within cycles; None unless they are regular and further apart than the cycles."""
    if does.saves is None:
        return None
    period = float(np.median(np.diff(boundaries)))
    inside = (signals.time > boundaries[0] - period / 2) & (signals.time <= boundaries[-1] + period / 2)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], does.saves & inside, [False]]).astype(np.int8)))
    begins, ends = signals.time[edges[::2]], signals.time[edges[1::2] - 1]
    ends = ends[np.append(begins[1:] - ends[:-1] > SAME_SAVE * period, True)[: ends.size]]
    if ends.size < 3:
        return None
    distances = np.diff(ends)
    usual = float(np.median(distances))
    regular = float(np.mean(np.abs(distances / usual - 1) <= NEAR)) >= REGULAR
    return ends if regular and usual > 1.5 * period else None


def _recurring(signals: Signals, does: Activity, boundaries: Array) -> Array | None:
    """Every k-th of the boundaries, where the device rests for longer or the cycle before takes longer; None for no k."""
    interval = float(np.median(np.diff(signals.time)))
    # What belongs to a boundary lies within half a cycle of it.
    middles = np.concatenate([boundaries[:1], (boundaries[1:] + boundaries[:-1]) / 2, boundaries[-1:]])
    place = np.searchsorted(middles, signals.time, side="right") - 1
    inside = (place >= 0) & (place < boundaries.size)
    rests = np.bincount(place[inside], does.rests[inside], boundaries.size) * interval
    lengths = np.diff(boundaries, prepend=boundaries[0] - np.median(np.diff(boundaries)))
    for values in (rests, lengths):
        turn = _turn(values) if np.ptp(values) >= SAMPLES * interval else None
        if turn is not None and boundaries[turn].size >= 3:
            return np.asarray(boundaries[turn])
    return None


def _turn(values: NDArray[np.floating]) -> slice | None:
    """Every k-th of the values, 2 <= k <= 10, where these are above all others; None where none are."""
    n = values.size
    for count in range(2, min(MOST, n // 3) + 1):
        turn = np.arange(n) % count
        means = np.array([np.median(values[turn == k]) for k in range(count)])
        first = int(means.argmax())
        own, others = values[turn == first], values[turn != first]
        if np.percentile(own, OWN) > np.percentile(others, OTHERS):
            return slice(first, None, count)
    return None
