"""How probably a cycle is the epoch, that is, its period within 5 % of the true one.

A small neural network (one hidden layer) weighs what is known of a track and of its rivals. The tracker chooses by its answer
and states it as confidence. `lab/speed/detector/calibrate.py` fitted it, on real traces, simulated ones of nearly all classes
and every second MLPerf run, and wrote `confidence.json`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from epochcast.detector.methods.track.boundaries import PeriodFit, Track
from epochcast.detector.methods.track.contrast import stands_out
from epochcast.detector.methods.track.folding import Folded
from epochcast.detector.methods.track.grid import Grid

# "By choice", or without a word: set by hand while the tracker was made; no sweep was kept. What they find together is measured
# by lab/speed/detector/comparison.py, and calibrate.py fits the confidence to it.

#: Periods whose ratio is this close (in logarithm) to a whole number belong together; to one, they are the same. By choice:
#: within 5 % a period is right.
RELATED = 0.05

#: Ratios beyond are not looked at. By choice (decision 0036).
MOST = 10

#: A cycle of so many others (in logarithm) holds them as its steps. From ../shared/research/detector.md, 4, where a cycle more
#: than five times longer wins (decision 0004).
STEPS = float(np.log(5))

#: A cycle that holds others is longer (in logarithm) by this much; places anywhere in a cycle scatter by this share of it. The
#: share is the standard deviation of a uniform distribution; 1.4 by choice.
HELD, ANYWHERE = float(np.log(1.4)), float(1 / np.sqrt(12))

#: Evidence further from its mean than so many standard deviations is taken to be there: no trace was ever seen beyond.
#: By choice.
FARTHEST = 5.0


def of_track(track: Track, tracks: list[Track], folded: Folded | None, grid: Grid) -> dict[str, float]:
    """The evidence for a track.

    Args:
        track: one of `tracks`.
        tracks: all that were followed.
        folded: the strict cycle in the same grid.
        grid: that was searched.
    """
    fit, metrics = track.fit, grid.values.shape[0]
    ahead, predicted, by_part = stands_out(grid, track.samples)
    times = 0.0 if folded is None else float(np.log(track.samples / grid.over / folded.period))
    ratios = [(other, float(np.log(other.samples / track.samples))) for other in tracks]
    parts = [other for other, ratio in ratios if is_multiple(-ratio)]
    multiples = [other for other, ratio in ratios if is_multiple(ratio)]
    part, multiple = _best(parts), _best(multiples)
    inside = [other for other, ratio in ratios if -STEPS < ratio < -RELATED]
    # A cycle much shorter than another may be its step, and a strict one at that: no rival of the same kind.
    shorter = [other for other, ratio in ratios if -STEPS < ratio < -2 * RELATED and not is_multiple(-ratio)]
    longer = [other for other, ratio in ratios if STEPS > ratio > 2 * RELATED and not is_multiple(ratio)]
    inner = [other for other, ratio in ratios if ratio <= -STEPS]
    outer = [other for other, ratio in ratios if ratio >= STEPS]
    holds = max((_held(other, track, other.fit) for other, ratio in ratios if ratio < -HELD), default=(0.0, 0.0))
    held = max((_held(track, other, other.fit) for other, ratio in ratios if ratio > HELD), default=(0.0, 0.0))
    # Scales and bounds by choice: the network was fitted to what they leave of the evidence.
    return {
        "alike": fit.alike,
        "contrast": fit.contrast,
        "distinct": fit.distinct,
        "stands": _stands(track),
        "intervals": 1 - float(np.exp(-fit.intervals / 1.6)),
        "many": float(np.log(fit.intervals)),
        "spread": float(np.log(fit.spread + 0.003)),
        "even": fit.even,
        "covered": float(np.sqrt(fit.covered)),
        "quality": fit.quality,
        "samples": float(np.log(track.samples / grid.over)),
        "aliased": _aliased(track.samples / grid.over, fit.intervals),
        "alone": 1 / metrics,
        "agreeing": fit.agreeing,
        "ahead": float(np.clip(ahead, -2, 15)),
        "predicted": float(np.clip(predicted, -0.5, 1)),
        "part_predicted": float(np.clip(by_part, -0.5, 1)),
        "smooth": float(track.smooth),
        "turns": fit.turns,
        "change": min(fit.change, 1.0),
        "nested": fit.nested,
        "nested_alone": fit.nested / metrics,
        "folds": folded.explained if folded is not None and abs(times) < RELATED else 0.0,
        "part_folds": folded.explained if folded is not None and is_multiple(times) else 0.0,
        "other_folds": folded.explained if folded is not None and abs(times) >= RELATED and not is_multiple(times) else 0.0,
        "halves": min((quality for _, quality in track.halves), default=fit.quality),
        "halves_apart": _apart(track, grid.over),
        "halves_part": max((_better_half(other, track) for other in parts + inside), default=-1.0),
        "shorter_nested": max((other.fit.nested * _stands(other) for other in inside), default=0.0),
        "part_quality": part.quality if part else 0.0,
        "part_distinct": part.distinct if part else 0.0,
        "part_alike": part.alike if part else 0.0,
        "part_turns": max((other.fit.turns for other in parts), default=0.0),
        "part_stands": max((_stands(other) for other in parts), default=0.0),
        "holds": holds[0],
        "holds_left": holds[1],
        "held": held[0],
        "held_left": held[1],
        "part_nested": max((other.fit.nested * other.fit.quality for other in parts), default=0.0),
        "multiple_quality": multiple.quality if multiple else 0.0,
        "multiple_distinct": multiple.distinct if multiple else 0.0,
        "multiple_alike": multiple.alike if multiple else 0.0,
        "multiple_stands": max((_stands(other) for other in multiples), default=0.0),
        "shorter": max((other.fit.quality for other in shorter), default=0.0),
        "longer": max((other.fit.quality for other in longer), default=0.0),
        "inner": max((other.fit.quality for other in inner), default=0.0),
        "outer": max((other.fit.quality for other in outer), default=0.0),
        "outer_stands": max((_stands(other) for other in outer), default=0.0),
    }


def _best(tracks: list[Track]) -> PeriodFit | None:
    return max((track.fit for track in tracks), key=lambda fit: fit.quality, default=None)


def _stands(track: Track) -> float:
    """How well a track fits and stands out from everything within it."""
    return track.fit.quality * max(0.0, track.fit.distinct)


def _apart(track: Track, over: int) -> float:
    """How far apart the periods of the two halves are (logarithm), less a sample of the trace, up to 0.2 (by choice)."""
    periods = [period for period, quality in track.halves if quality > 0]
    if len(periods) < 2:
        return 0.2 if track.halves else 0.0
    return float(np.clip(abs(np.log(periods[0] / periods[1])) - over / track.samples, 0.0, 0.2))


def _aliased(period: float, cycles: float) -> float:
    """How large a share of half a cycle may differ from the other half by the moments of its readings alone.

    Of 4.5 readings a cycle, every second cycle is read at other moments, and twice the period stands out for it: all the more
    the fewer readings there are, unless the moments drift over the cycles.
    """
    drift = np.exp(2j * np.pi * period * np.arange(max(1, round(cycles))))
    return float(abs(drift.mean()) * np.sin(np.pi * period / 2) ** 2 * 2 / period)


def _held(inner: Track, outer: Track, fit: PeriodFit) -> tuple[float, float]:
    """How alike cycles hold another's, as many in each at the same places, times the quality of a fit; and what they leave.

    Of epochs with an evaluation after every k-th, and of evaluations within an epoch, the longer cycle is made of the shorter
    one, and something that is left over [shorter cycles].
    """
    if outer.boundaries.size < 3 or outer.samples > (MOST + 1) * inner.samples:
        return 0.0, 0.0
    edges = outer.boundaries * outer.size - inner.samples / 2
    marks = inner.boundaries * inner.size
    counts = np.histogram(marks, edges)[0]
    usual = int(np.bincount(counts).argmax())
    if usual < 2:
        return 0.0, 0.0
    alike = np.flatnonzero(counts == usual)
    first = np.searchsorted(marks, edges[alike])
    places = marks[first[:, None] + np.arange(usual)] - edges[alike, None]
    scatter = float(np.sqrt(((places - places.mean(axis=0)) ** 2).mean())) / inner.samples
    share = alike.size / counts.size * max(0.0, 1 - scatter / ANYWHERE)
    return share * fit.quality, float(np.clip(outer.samples / inner.samples - usual, -1, 1))


def _better_half(other: Track, track: Track) -> float:
    """By how much another track fits one half of the trace better, at most; where halves were not looked at, the whole."""
    if not (other.halves and track.halves):
        return other.fit.quality - track.fit.quality
    return max(its[1] - own[1] for its, own in zip(other.halves, track.halves, strict=True))


def is_multiple(logarithm: float) -> bool:
    """Whether a ratio is close to one of 2, 3, ..., 10."""
    nearest = round(float(np.exp(logarithm))) if logarithm < np.log(MOST + 1) else MOST + 1
    return 2 <= nearest <= MOST and abs(logarithm - np.log(nearest)) < RELATED


def of_fold(folded: Folded, tracks: list[Track], grid: Grid) -> dict[str, float]:
    """The evidence for a folded cycle, next to the tracks of the same grid."""
    ratios = [(track, float(np.log(track.samples / grid.over / folded.period))) for track in tracks]
    beyond, predicted, by_part = stands_out(grid, folded.period * grid.over)
    # Bounds as of a track.
    return {
        "beyond": float(np.clip(beyond, -2, 15)),
        "predicted": float(np.clip(predicted, -0.5, 1)),
        "part_predicted": float(np.clip(by_part, -0.5, 1)),
        "same": max((track.fit.quality for track, ratio in ratios if abs(ratio) < RELATED), default=0.0),
        "multiple": max((track.fit.quality for track, ratio in ratios if is_multiple(ratio)), default=0.0),
        "longer": max(
            (track.fit.quality for track, ratio in ratios if ratio > 2 * RELATED and not is_multiple(ratio)), default=0.0
        ),
        "outer_stands": max((_stands(track) for track, ratio in ratios if ratio > STEPS), default=0.0),
        "explained": folded.explained,
        "significance": float(np.log(folded.significance)),
        "ahead": float(np.log(folded.ahead)),
        "turns": folded.turns,
        "covered": folded.covered,
        "cycles": float(np.log(folded.cycles)),
        "samples": float(np.log(folded.period)),
        "aliased": _aliased(folded.period, folded.cycles),
        "metrics": float(np.log(folded.metrics)),
        "looked_at": folded.looked_at,
    }


def confidence(evidence: Mapping[str, float]) -> float:
    """Probability, 0..1, of a track by its evidence, or of a fold by its."""
    return probability(evidence, _weights()["fold" if "explained" in evidence else "track"])


def probability(evidence: Mapping[str, float], weights: Mapping[str, Any]) -> float:
    """The network's answer, 0..1.

    Args:
        evidence: value by name.
        weights: `names` of the evidence in order, its `mean` and `scale`; `hidden` (units, names) and `bias` (units,) of the
            layer, whose units are tanh; `output` (units,) and `offset` of the logit.
    """
    values = (np.array([evidence[name] for name in weights["names"]]) - weights["mean"]) / weights["scale"]
    units = np.tanh(np.asarray(weights["hidden"]) @ values.clip(-FARTHEST, FARTHEST) + weights["bias"])
    return float(1 / (1 + np.exp(-(units @ np.asarray(weights["output"]) + weights["offset"]))))


@cache
def _weights() -> dict[str, dict[str, Any]]:
    read = json.loads((files(__package__) / "confidence.json").read_text())
    return {
        kind: {name: value if name == "names" else np.array(value) for name, value in weights.items()}
        for kind, weights in read.items()
    }
