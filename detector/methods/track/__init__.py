"""Epoch tracking: folds, template matching, dynamic programming, and a confidence that knows when to abstain.

Unlike the paper's recipe it needs neither a cropped trace nor a fitting number of epochs, fuses every metric that follows the
job without delay, tolerates jitter, missing samples and drift, separates two jobs, and abstains when unsure.
"""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from epochcast.detector import clock as clocks
from epochcast.detector.clock import GPU_METRICS, Clock
from epochcast.detector.confidence import ANSWERS, confidence
from epochcast.detector.epochs import Cycle, Detection, Epoch, JobEpochs, Reason, Stretch
from epochcast.detector.errors import InputError
from epochcast.detector.methods.track.boundaries import CLOSE, change, refined, typical
from epochcast.detector.methods.track.cycle import OUTER, TrackedCycle, again, bounded, find, within
from epochcast.detector.methods.track.cycles import name_cycles, name_steps
from epochcast.detector.methods.track.fold import MULTIPLES
from epochcast.detector.methods.track.grid import FEWEST_SAMPLES, Grid, build, busy_stretches
from epochcast.detector.methods.track.periods import same
from epochcast.detector.methods.track.regimes import DIFFERENT, parts
from epochcast.detector.methods.track.second_job import drifts, remainder
from epochcast.detector.signals import Signals

# Here and beside, "by choice" or without a word: set by hand while the tracker was made; no sweep was kept. "Research notes":
# the tracker in ../shared/research/detector.md, 4, tuned there on simulated traces. What all find together is measured by
# lab/speed/detector/comparison.py; calibrate.py fits the confidence to it.

#: The other clock must be surer by so much. By choice.
SURER = 0.1

#: A cycle this sure on one clock speaks against another cycle on the other. By choice: below `ANSWERS`, so that a cycle that is
#: no answer itself can still contradict.
CONTRADICTS = 0.45

#: Cycles are steady if this share of them is close to their median: where equal work takes two times, those before and after
#: the change; others are looked for on the other clock, too. There one of about their length (logarithm; no part or multiple),
#: or a steady one, with so many times their evidence is the cycle; one that is both needs no more than they have. By choice:
#: simulated jobs that others slow have 1.5 and more, no real one moved.
STEADY, UNEVEN, CLEARER = 0.6, float(np.log(1.5)), 2.0

#: Where the period changes, that of the part with more than this share of the time is the trace's. By choice (decision 0036).
MOST = 2 / 3


def detect(
    signals: Signals,
    clock: Clock,
    *,
    abstain_below: float = ANSWERS,
    shortest_epoch_s: float = 4.0,
    thorough: bool = True,
) -> Detection:
    """Epochs, or the steps of a job without visible epochs, or nothing.

    The confidence is the probability that the period is within 5 % of the epoch's, see `confidence`.

    A cycle shorter than `shortest_epoch_s` wall seconds gets the verdict `steps`: telemetry shows no difference from an epoch
    that short (batch inference and language-model steps are as even as epochs), so shorter true epochs are called steps too.

    Args:
        signals: n samples; of the varying metrics those that are read often and written promptly are used, see `grid`.
        clock: the clock to answer on, and to search first; the other one is searched where this one shows no sure, even epoch.
        abstain_below: verdict `none` for a lower confidence, 0..1.
        shortest_epoch_s: wall seconds; for the verdict, and for a search on the other clock. 4 by choice (decision 0004).
        thorough: look for a second job, and on the other clock.

    Returns:
        `jobs` holds a second job on the device where there is one. `scores` holds `similarity`, (n,) at the samples' times:
        the match of the boundary template, about -1..1 (none of a cycle found by folding); and one value per candidate period:
        `candidate_period` [s of the clock; of the other one, at its mean speed] and `candidate_quality`. They stay when it
        abstains.

    Raises:
        InputError: a parameter out of bounds.
    """
    if not 0 <= abstain_below <= 1:
        raise InputError(f"abstain_below is {abstain_below}: choose 0 to 1")
    if not shortest_epoch_s >= 0:
        raise InputError(f"shortest_epoch_s is {shortest_epoch_s}: choose 0 seconds or more")
    none = Detection("none", None, None, (), 0.0, "track", clock.name)
    searches = _searched(signals, clock, thorough, shortest_epoch_s)
    search = searches[0] if searches else None
    if search is None:
        begin, end = busy_stretches(signals)[0]
        return replace(none, reason="too_few_samples" if end - begin + 1 < FEWEST_SAMPLES else "no_cycle")
    jobs = search.jobs(signals, clock)
    cycles = [_named(signals, job, shortest_epoch_s, search, searches) for job in jobs]
    if len(jobs) == 1 and (epoch := _other_epoch(cycles[0], jobs[0].period_s, shortest_epoch_s)):
        # The distance of saves or evaluations was found, and it is made of epochs, or they of it: these are the answer.
        others = (each.of_period(epoch.period_s, search.confidence, _boundaries(jobs[0])) for each in searches)
        its = next((each for each in others if each), None)
        if its is not None:
            search, jobs = its, [its.job(its.cycle, signals)]
            cycles = [tuple(replace(cycle, period_s=jobs[0].period_s) if cycle is epoch else cycle for cycle in cycles[0])]
    stretches = tuple(
        Stretch(job.epochs[0].start, job.epochs[-1].end, job.period_s, job.confidence, len(job.epochs)) for job in jobs
    )
    lengths = [stretch.end - stretch.start for stretch in stretches]
    longest = int(np.argmax(lengths))
    cycle = search.parts[longest] if search.parts else search.cycle
    first = replace(jobs[longest], epochs=tuple(epoch for job in jobs for epoch in job.epochs))
    silent: Reason | None = None
    if search.confidence < abstain_below:
        silent, stretches = search.reason(abstain_below), ()
    elif len(jobs) > 1 and lengths[longest] <= MOST * sum(lengths):
        silent = "period_changes"
    scores = search.scores(clock)
    if silent is not None:
        several = () if not stretches else tuple(sorted(sum(cycles, ()), key=lambda each: each.period_s))
        return replace(none, confidence=search.confidence, reason=silent, stretches=stretches, cycles=several, scores=scores)
    answer = replace(
        none,
        period_s=first.period_s,
        period_work=search.period_work(first, clock),
        confidence=cycle.confidence,
        samples_per_epoch=first.period_s / float(np.median(np.diff(signals.time))),
        cycles=cycles[longest],
        scores=scores,
    )
    if first.period_s < shortest_epoch_s:
        if not GPU_METRICS & signals.metrics.keys():  # daemons and the kernel make short cycles in the counters of any host
            return replace(none, confidence=search.confidence, reason="no_cycle", scores=scores)
        return replace(answer, verdict="steps", step_s=first.period_s)
    first = replace(first, epochs=tuple(sorted((*first.epochs, *search.elsewhere(signals)), key=lambda epoch: epoch.start)))
    jobs = [first]
    other = _second(search.grid, cycle) if thorough and len(stretches) == 1 else None
    if other is not None and other.confidence >= max(abstain_below, ANSWERS):
        second = search.job(other, signals)
        jobs += [second] if second.period_s >= shortest_epoch_s else []
    return replace(answer, verdict="epochs", epochs=first.epochs, jobs=tuple(jobs), stretches=stretches)


@dataclass(frozen=True)
class _Search:
    """The best cycle, and the clock, the stretch and the grid that it was found in.

    Attributes:
        parts: the cycles of the grid's parts, in the order of time, where its period changes; else empty.
    """

    clock: Clock
    stretch: tuple[int, int]
    grid: Grid
    cycle: TrackedCycle
    parts: tuple[TrackedCycle, ...] = ()

    @property
    def confidence(self) -> float:
        """Of the cycle, or of the least sure of its parts."""
        return min((part.confidence for part in self.parts), default=self.cycle.confidence)

    def scores(self, clock: Clock) -> dict[str, NDArray[np.float64]]:
        """What plots need, on the requested clock."""
        scores = dict(self.cycle.curves)
        scores["candidate_period"] = scores["candidate_period"] * self.seconds_of(clock)
        if "similarity" in scores:
            at = self.grid.reading(scores.pop("similarity_at"))
            scores["similarity"] = np.interp(self.clock.reading, at, scores["similarity"], left=0.0, right=0.0)
        return scores

    def reason(self, abstain_below: float) -> Reason:
        """Why the cycle is no answer."""
        if self.cycle.is_beat:
            return "undersampled"
        return "rival_cycles" if confidence(self.cycle.evidence, 0.0) >= abstain_below else "no_cycle"

    @property
    def is_steady(self) -> bool:
        """Whether most cycles are as long as usual."""
        return not self.parts and _is_steady(np.diff(self.cycle.boundaries))

    def settles(self, shortest_epoch_s: float) -> bool:
        """Whether the other clock need not be asked: the cycle is sure and steady, and longer than steps."""
        period = self.cycle.period * self.seconds_of(clocks.wall(self.clock.time))
        return self.confidence >= ANSWERS and self.is_steady and period >= shortest_epoch_s

    def yields(self, other: "_Search") -> bool:
        """Whether the answer is the other clock's: epochs of these steps, the same cycle far clearer, or a surer one."""
        ratio = other.cycle.period / (self.cycle.period * self.seconds_of(other.clock))
        evidence = max(self.cycle.evidence, sum(part.evidence for part in self.parts))
        near, steadier = abs(np.log(ratio)) < UNEVEN, not self.is_steady and other.is_steady
        clearer = (near or steadier) and other.cycle.evidence > evidence * (1 if near and steadier else CLEARER)
        surer = other.confidence > self.confidence + SURER and (self.confidence < CONTRADICTS or same(ratio, 1.0))
        return surer or (other.confidence >= ANSWERS and (clearer or ratio > MULTIPLES[-1]))

    def jobs(self, signals: Signals, clock: Clock) -> list[JobEpochs]:
        """The cycle as a job, or one job for each part of the time where the period on the requested clock changes."""
        if self.parts:
            return [self.job(part, signals) for part in self.parts]
        job = self.job(self.cycle, signals)
        lengths = np.array([epoch.end - epoch.start for epoch in job.epochs])
        # Equal work may take another time from some moment on.
        place, by = (0, 0.0) if self.clock.name == clock.name else change(lengths)
        sides = [lengths[:place], lengths[place:]]
        if abs(by) < DIFFERENT or not all(map(_is_steady, sides)):
            return [job]
        epochs = job.epochs[:place], job.epochs[place:]
        return [JobEpochs(float(np.median(side)), own, job.confidence) for side, own in zip(sides, epochs, strict=True)]

    def job(self, cycle: TrackedCycle, signals: Signals) -> JobEpochs:
        """A cycle of this grid as a job, in wall seconds."""
        times = self.clock.to_wall(self.grid.reading(cycle.boundaries)).clip(signals.time[0], signals.time[-1])
        # Wall seconds of equal work vary with what else ran on the device.
        sample_s = float(np.ptp(times) / np.ptp(cycle.boundaries))
        period = cycle.period if self.clock.name == "wall" else typical(np.diff(times) / sample_s, self.grid.quantum) * sample_s
        return JobEpochs(period, tuple(_epochs(times, cycle.match)), cycle.confidence)

    def elsewhere(self, signals: Signals) -> list[Epoch]:
        """Epochs of the same cycle in the other busy stretches: a job that was stopped and resumed."""
        others = (build(signals, self.clock, each) for each in busy_stretches(signals) if each != self.stretch)
        return [epoch for grid in others if grid for epoch in _again(signals, self.clock, grid, self.cycle.period)]

    def of_period(self, period_s: float, confidence: float, outer: NDArray[np.float64]) -> "_Search | None":
        """This search with a cycle of another period [wall s] and this confidence; None where it cannot be followed.

        Args:
            period_s: of the cycle.
            confidence: 0..1.
            outer: boundaries [unix s] of a longer one, which may hold it.
        """
        period = period_s / self.seconds_of(clocks.wall(self.clock.time))
        known = again(self.grid, period)
        parts = (bounded(self.grid, track) for track in within(self.grid, self.samples(outer), np.array([period])))
        for boundaries, match in parts if known is None else [known]:
            usual = typical(np.diff(boundaries), self.grid.quantum) * self.grid.step
            if same(usual, period):
                cycle = replace(self.cycle, period=usual, boundaries=boundaries, match=match, confidence=confidence)
                return replace(self, cycle=cycle, parts=())
        return None

    def samples(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Places of unix seconds in the grid, fractional samples."""
        return np.asarray((self.clock.at(times) - self.grid.start) / self.grid.step)

    def seconds_of(self, clock: Clock) -> float:
        """Seconds of a clock per second of the searched clock, on average over the grid; 1 if they are the same."""
        if clock.name == self.clock.name:
            return 1.0
        ends = self.grid.reading(np.array([0.0, self.grid.values.shape[1] - 1.0]))
        first, last = clock.at(self.clock.to_wall(ends))
        return float((last - first) / (ends[1] - ends[0]))

    def period_work(self, job: JobEpochs, clock: Clock) -> float | None:
        """The job's period on the requested clock, if that is the work clock."""
        if clock.name == "wall" or self.clock.name == "work":
            return None if clock.name == "wall" else self.cycle.period
        starts, ends = np.array([(epoch.start, epoch.end) for epoch in job.epochs]).T
        return float(np.median(clock.at(ends) - clock.at(starts)))


def _named(
    signals: Signals, job: JobEpochs, shortest_epoch_s: float, search: _Search, searches: list[_Search]
) -> tuple[Cycle, ...]:
    """What the cycles of a job are."""
    boundaries = _boundaries(job)
    if job.period_s < shortest_epoch_s:
        return name_steps(signals, boundaries, job.period_s, job.confidence)
    if search.parts:
        return name_cycles(signals, boundaries, job.period_s, job.confidence)
    # In seconds of work nothing rests: what only a rest ends shows on the wall clock.
    shown = next((each for each in searches if each.clock.name == "wall"), search)
    inner = (
        shown.clock.to_wall(shown.grid.reading(refined(shown.grid.values, track, shown.grid.lag)))
        for track in within(shown.grid, shown.samples(boundaries), shown.cycle.curves["candidate_period"] / shown.grid.step)
    )
    return name_cycles(signals, boundaries, job.period_s, job.confidence, search.cycle.k_open, inner)


def _boundaries(job: JobEpochs) -> NDArray[np.float64]:
    """Of its epochs [unix s]."""
    return np.array([*(epoch.start for epoch in job.epochs), job.epochs[-1].end])


def _other_epoch(cycles: tuple[Cycle, ...], period_s: float, shortest_s: float) -> Cycle | None:
    """The shortest epoch, where that is shorter or longer than the cycle that was found; None where that is it."""
    first = next((each for each in cycles if each.kind == "epoch" and each.period_s >= shortest_s), None)
    return None if first is None or same(first.period_s, period_s) else first


def epochs_of(signals: Signals, clock: Clock, period_s: float) -> tuple[Epoch, ...]:
    """Epochs of a known period [wall s] in all busy stretches of a trace; none where it does not show."""
    epochs: list[Epoch] = []
    for stretch in busy_stretches(signals):
        grid = build(signals, clock, stretch)
        if grid is None:
            continue
        ends = clock.to_wall(grid.reading(np.array([0.0, grid.values.shape[1] - 1.0])))
        work = float(np.diff(clock.at(ends))[0] / np.diff(ends)[0])
        epochs += _again(signals, clock, grid, period_s * work)
    return tuple(sorted(epochs, key=lambda epoch: epoch.start))


def shows(signals: Signals, clock: Clock, period_s: float) -> bool:
    """Whether a trace has evidence of its own for a strict cycle [wall s]."""
    grid = build(signals, clock, busy_stretches(signals)[0])
    if grid is None:
        return False
    period, window = grid.folding.refined(period_s / (grid.step * grid.over))
    return grid.folding.own(period, window) > 0


def _again(signals: Signals, clock: Clock, grid: Grid, period: float) -> list[Epoch]:
    """Epochs of a known period [s of the clock] in another stretch of the trace."""
    if (more := again(grid, period)) is None:
        return []
    return _epochs(clock.to_wall(grid.reading(more[0])).clip(signals.time[0], signals.time[-1]), more[1])


def _epochs(times: NDArray[np.float64], match: NDArray[np.float64]) -> list[Epoch]:
    spans = zip(pairwise(times.tolist()), pairwise(match.tolist()), strict=True)
    return [Epoch(start, end, min(pair)) for (start, end), pair in spans]


def _is_steady(lengths: NDArray[np.float64]) -> bool:
    """Whether one length is that of most."""
    return bool(np.mean(np.abs(lengths / np.median(lengths) - 1) <= CLOSE) >= STEADY)


def _searched(signals: Signals, clock: Clock, thorough: bool, shortest_epoch_s: float) -> list[_Search]:
    """The cycle on the clock; where that is not sure, uneven, or steps, also the one on the other clock, the better one first.

    Epochs of a job that others slow down are even in work only; where the others' work is counted along, only in wall time.
    """
    best: list[_Search] = []
    stretch = busy_stretches(signals)[0]
    for each in (clock, None) if thorough else (clock,):
        if best and best[0].settles(shortest_epoch_s):
            break
        on = each or clocks.other(signals, clock)
        grid = None if on is None else build(signals, on, stretch)
        cycle = None if grid is None else find(grid)
        if on is None or grid is None or cycle is None:
            continue
        search = _Search(on, stretch, grid, cycle, parts(grid, cycle) if thorough else ())
        best.insert(0 if not best or best[0].yields(search) else 1, search)
    return best


def _second(grid: Grid, first: TrackedCycle) -> TrackedCycle | None:
    """The cycle of another job in what the first one leaves."""
    rest = remainder(grid, first.boundaries)
    if rest is None or not any(rest.folding.evidence(period) >= OUTER for period in rest.folding.peaks()[:1]):
        return None
    second = find(rest)
    return second if second is not None and drifts(first.boundaries, second.boundaries) else None
