"""The best cycle of a grid: two scorers, an even fold and a track of boundaries, share their candidates and one choice."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from epochcast.detector.confidence import confidence
from epochcast.detector.methods.track.boundaries import Track, follow, refined, typical
from epochcast.detector.methods.track.ends import with_ends
from epochcast.detector.methods.track.fold import (
    FEWEST_CYCLES,
    MOST_SAMPLES,
    MULTIPLES,
    Folding,
    even_boundaries,
    stretched,
)
from epochcast.detector.methods.track.fold import FEWEST_READINGS as FEWEST_FOLDED
from epochcast.detector.methods.track.grid import Grid
from epochcast.detector.methods.track.periods import SAME, same
from epochcast.detector.methods.track.second_job import remainder

Array = NDArray[np.float64]

#: A cycle of fewer readings is not followed. By choice; `boundaries.follow` needs as many bins.
FEWEST_READINGS = 6

#: A known cycle needs this quality to be there again. By choice.
AGAIN = 0.3

#: Numbers of shorter cycles that a longer one may hold, and the share of the longer ones that do, at places that scatter by so
#: much of a shorter one. By choice; what has nothing to do with it scatters by 0.29 (uniform).
PARTS, ALIKE, SCATTER = (2, 3, 4, 5, 6), 0.6, 0.1

#: Periods of a trace that are followed until a cycle is chosen. By choice.
ENOUGH = 200

#: Folds of each octave of periods that are refined and followed: the many of a short step must not crowd out a long epoch. By
#: choice.
PER_OCTAVE = 2

#: What the evidence of a track weighs next to that of a fold: boundaries are put where they match. With less, fewer wrong
#: cycles of MLPerf's runs are sure, but fewer jobs of few cycles; 0.3 to 1 differ by a few answers on 245 rows.
TRACKED = 0.5

#: The shortest fraction with this share of the best evidence is the cycle; one of more than `MULTIPLES` of these with this
#: evidence holds them as its steps. ../shared/research/period_fold.md.
FRACTION, OUTER = 0.35, 10.0

#: Periods whose ratio is this close to a whole number belong together. By choice.
RELATED = 0.04

#: A cycle that fits so many times into another one is its steps, and no rival. ../shared/research/period_fold.md.
STEPS = 8


@dataclass(frozen=True)
class TrackedCycle:
    """A cycle of the trace, with its boundaries.

    Attributes:
        period: seconds of the clock.
        boundaries: (k,) fractional samples of the grid, increasing, k >= 2.
        match: (k,) 0..1, how well each boundary fits.
        confidence: 0..1.
        evidence: what it rests on [nats], see `fold`.
        is_beat: whether it is a beat of the readings with something shorter; its confidence is 0 then.
        k_open: numbers of epochs that one cycle may hold, other than 1; empty where its parts are refuted.
        curves: what plots need; `methods.track.detect` names them. `similarity` stands at the samples `similarity_at`.
    """

    period: float
    boundaries: Array
    match: Array
    confidence: float
    evidence: float
    is_beat: bool
    k_open: tuple[int, ...]
    curves: dict[str, Array]


@dataclass(frozen=True)
class _Hypothesis:
    """A period [samples of the trace], its evidence [nats] in an even fold and in the best track of it."""

    period: float
    folded: float
    tracked: float = 0.0
    track: Track | None = None

    @property
    def evidence(self) -> float:
        return self.folded + TRACKED * self.tracked


def find(grid: Grid) -> TrackedCycle | None:
    """The best cycle of a grid, however unsure; None if nothing repeats."""
    folding, values = grid.folding, grid.values[:, :: grid.over]
    folded = _folds(folding)
    # Interpolated between too few readings, the curve is not the cycle's: only the fold sees it.
    long = [each.period * grid.over for each in folded if each.period >= FEWEST_READINGS]
    tracks = [track for period in long if (track := follow(_middle(grid.values, period), period)) is not None]
    hypotheses = [each for each in _merged(folding, folded, tracks, grid) if each.evidence > 0]
    if not hypotheses:
        return None
    best = _chosen(hypotheses)
    rests = [folding.without(best.period)]
    if best.track is not None and (uneven := remainder(grid, best.track.boundaries * np.float64(best.track.size))) is not None:
        rests.append((uneven.folding, 1))
    rival = max(_left(each, each.period / best.period, rests) for each in hypotheses)
    is_beat = folding.is_beat(best.period)
    k_open = tuple(
        count
        for count in MULTIPLES
        if any(abs(best.period / count / each.period - 1) < RELATED and each.folded > 0 for each in hypotheses)
    )
    curves = {
        "candidate_period": np.array([each.period * grid.over * grid.step for each in hypotheses]),
        "candidate_quality": np.array([each.evidence for each in hypotheses]),
    }
    cycle = TrackedCycle(
        period=best.period * grid.over * grid.step,
        boundaries=even_boundaries(values, best.period) * grid.over,
        match=np.ones(0),
        confidence=0.0 if is_beat else confidence(best.evidence, rival),
        evidence=best.evidence,
        is_beat=is_beat,
        k_open=k_open,
        curves=curves,
    )
    if (track := best.track) is None:
        if cycle.boundaries.size < 2:
            return None
        period = float(np.diff(cycle.boundaries).mean()) * grid.step
        return replace(cycle, period=period, match=np.ones(cycle.boundaries.size))
    if _middle(grid.values, track.samples) is not grid.values:
        track = follow(grid.values, track.samples) or track
    inner = refined(grid.values, track, grid.lag)
    boundaries, match = with_ends(grid, inner, track.match, track.samples, track.rows(grid.values.shape[0]))
    curves |= {
        "similarity_at": np.asarray((np.arange(track.similarity.size) + 0.5) * track.size - 0.5, dtype=np.float64),
        "similarity": track.similarity,
    }
    # The ends are less exact than matched boundaries, and count where there are few of these.
    period = typical(np.diff(inner if inner.size > 3 else boundaries), grid.quantum) * grid.step
    return replace(cycle, period=period, boundaries=boundaries, match=match, curves=curves)


def again(grid: Grid, period: float) -> tuple[Array, Array] | None:
    """Boundaries [fractional samples] of a known cycle in another stretch of the trace, and their matches; None without any.

    Args:
        grid: of that stretch.
        period: seconds of the clock.
    """
    track = follow(grid.values, period / grid.step)
    if track is None or track.quality < AGAIN or not same(track.samples * grid.step, period):
        return None
    return bounded(grid, track)


def bounded(grid: Grid, track: Track) -> tuple[Array, Array]:
    """Boundaries [fractional samples] of a track, its ends included, and their matches."""
    inner = refined(grid.values, track, grid.lag)
    return with_ends(grid, inner, track.match, track.samples, track.rows(grid.values.shape[0]))


def within(grid: Grid, edges: Array, known: Array) -> Iterator[Track]:
    """Shorter cycles, of which most of a longer one's hold as many, at the same places.

    Something else, as an evaluation after some epochs, makes it no multiple of them: half of one, as far as is known.

    Args:
        grid: that is searched.
        edges: (k,) boundaries of the longer cycle, fractional samples.
        known: periods [samples] for which there is evidence; they are tried first.
    """
    length = float(np.median(np.diff(edges)))
    known = known[(known <= length / PARTS[0]) & (known > length / (PARTS[-1] + 1))]
    for period in (*known.tolist(), *(length / (count + 0.5) for count in PARTS)):
        track = follow(grid.values, period) if period >= FEWEST_READINGS * grid.over else None
        if track is None or track.quality < AGAIN:
            continue
        marks = refined(grid.values, track, grid.lag)
        # Half a period before the first one of most: none is so near to this that it is now in one, now in the next.
        begins = edges - track.samples
        begins += np.median(marks[np.searchsorted(marks[:-1], begins)] - begins) - track.samples / 2
        counts = np.histogram(marks, begins)[0]
        usual = int(np.quantile(counts, 1 - ALIKE, method="lower"))
        starts = np.searchsorted(marks, begins[:-1])[counts >= usual]
        places = marks[starts[:, None] + np.arange(usual)] - begins[:-1][counts >= usual, None]
        if usual in PARTS and places.std(axis=0).max() < SCATTER * track.samples:
            yield track


def _folds(folding: Folding) -> list[_Hypothesis]:
    """The periods with the most evidence, and fractions and multiples of the best; the surest first."""
    periods: list[float] = []
    seeds = _best_of_octaves(folding.peaks())
    for count in MULTIPLES:
        seeds += [each for seed in seeds[:1] for each in (seed / count, seed * count)]
    folds = []
    for seed in seeds:
        if not FEWEST_FOLDED <= seed <= folding.samples / FEWEST_CYCLES:
            continue
        period, window = folding.refined(seed)
        if folding.evidence(period, window) > 0 and all(abs(np.log(period / each)) > SAME / 3 for each in periods):
            periods.append(period)
            folds.append(_Hypothesis(period, max(0.0, folding.own(period, window))))
    folds = sorted((each for each in folds if each.folded > 0), key=lambda each: -each.folded)
    kept = _best_of_octaves([each.period for each in folds])
    return [each for each in folds if each.period in kept]


def _best_of_octaves(periods: Iterable[float]) -> list[float]:
    """The first few periods of each octave."""
    many: Counter[int] = Counter()
    best = []
    for period in periods:
        octave = int(np.log2(period))
        many[octave] += 1
        best += [period] if many[octave] <= PER_OCTAVE else []
    return best


def _merged(folding: Folding, folded: list[_Hypothesis], tracks: list[Track], grid: Grid) -> list[_Hypothesis]:
    """One hypothesis for each period: folds, each with its best track, and tracks that no fold has."""
    merged = list(folded)
    for track in tracks:
        period, evidence = track.samples / grid.over, _evidence(track, grid)
        place = next((i for i, each in enumerate(merged) if abs(np.log(each.period / period)) < RELATED), None)
        if place is None:
            even = folding.own(period) if FEWEST_FOLDED <= period <= folding.samples / FEWEST_CYCLES else 0.0
            merged.append(_Hypothesis(period, max(0.0, even), evidence, track))
        else:  # the evidence is the best track's, the boundaries are of the one that fits best
            known = merged[place].track
            best = track if known is None or track.quality > known.quality else known
            merged[place] = replace(merged[place], tracked=max(evidence, merged[place].tracked), track=best)
    return merged


def _evidence(track: Track, grid: Grid) -> float:
    """What the cycles of a track predict of each other [nats], less what it costs to place their boundaries; 0 for one cycle.

    Intervals are known to half a sixteenth of a period or half a bin: each costs what its scatter is more than that. Boundaries
    that match badly, fill a part of the trace, or are few count less (`Track.quality`).
    """
    boundaries = (track.boundaries * track.size).astype(np.float64)
    if boundaries.size < 3:
        return 0.0
    folding, period = stretched(grid.values, boundaries, int(track.samples / grid.over))
    lengths = np.diff(boundaries)
    scatter = max(float(lengths.std() / lengths.mean()), max(grid.over, track.size) / track.samples / 2)
    cost = track.intervals / 2 * max(0.0, float(np.log(2 * MOST_SAMPLES * scatter)))
    return max(0.0, folding.own(period) - cost) * track.quality**2


def _chosen(hypotheses: list[_Hypothesis]) -> _Hypothesis:
    """The shortest fraction of the best hypothesis that has about its evidence, or the longest cycle that holds many such."""
    best = max(hypotheses, key=lambda each: each.evidence)
    chosen = min((best, *(each for each in hypotheses if _is_part(each, best))), key=lambda each: each.period)
    own = _without_multiples(each for each in hypotheses if each is chosen or each.evidence >= OUTER)
    while outer := [each for each in own if _holds(each, chosen)]:
        chosen = max(outer, key=lambda each: each.evidence)
    return chosen


def _holds(outer: _Hypothesis, step: _Hypothesis) -> bool:
    """Whether a cycle that is no multiple of a shorter one may hold that: many times, or with more evidence."""
    ratio = outer.period / step.period
    return ratio > MULTIPLES[-1] or (ratio > 1 and outer.evidence > step.evidence)


def _without_multiples(hypotheses: Iterable[_Hypothesis]) -> list[_Hypothesis]:
    """The hypotheses that are no multiple of another one with about their evidence."""
    own: list[_Hypothesis] = []
    for each in sorted(hypotheses, key=lambda each: each.period):
        if not any(_is_part(one, each) for one in own):
            own.append(each)
    return own


def _is_part(part: _Hypothesis, of: _Hypothesis) -> bool:
    """Whether a cycle is a fraction of another one, at the same place in each of that, and has about its evidence."""
    ratio = of.period / part.period
    return _is_multiple(ratio) and abs(ratio - round(ratio)) < SCATTER and part.evidence >= FRACTION * of.evidence


def _is_multiple(ratio: float) -> bool:
    nearest = round(ratio)
    return nearest in MULTIPLES and abs(ratio / nearest - 1) < RELATED


def _left(rival: _Hypothesis, ratio: float, rests: Sequence[tuple[Folding, int]]) -> float:
    """The evidence [nats] of a period that the best one does not explain: none if that is the same, a multiple, or its steps.

    Args:
        rival: the period.
        ratio: of it to the best one.
        rests: what the best one leaves, taken away as an even cycle or along its track; see `Folding.without`.
    """
    if ratio < 1 / STEPS or same(ratio, 1.0) or _is_multiple(max(ratio, 1 / ratio)):
        return 0.0
    left = rival.folded
    for rest, scale in rests:
        tested = FEWEST_FOLDED <= rival.period / scale <= rest.samples / FEWEST_CYCLES
        left = min(left, rest.evidence(rival.period / scale) if tested else 0.0)
    return max(0.0, left) + TRACKED * rival.tracked


def _middle(values: Array, period: float) -> Array:
    """The middle `ENOUGH` periods, or all there is: more do not show better whether it is a cycle."""
    n, length = values.shape[1], round(ENOUGH * period)
    return values if n <= length else values[:, (n - length) // 2 : (n + length) // 2]
