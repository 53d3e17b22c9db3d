"""How probably a cycle is the epoch, that is, its period within 5 % of the true one.

A logistic regression on what is known of a track and of its rivals. The tracker chooses by it, and states it as confidence.
Fitted by `benchmarks/detector/calibrate.py` on simulated traces of all classes and every second MLPerf run.
"""

import numpy as np

from .boundaries import Fit, Track
from .folding import Folded

#: Periods whose ratio is this close (in logarithm) to a whole number belong together; to one, they are the same.
RELATED = 0.05

#: Ratios beyond are not looked at.
MOST = 10

#: Weights of the evidence for a track, and what is added; printed by `benchmarks/detector/calibrate.py`.
TRACK_INTERCEPT = -15.2099
TRACK_WEIGHTS = {
    "alike": 0.2133,
    "contrast": 1.5657,
    "distinct": 4.3317,
    "intervals": 9.8529,
    "many": 0.4292,
    "spread": -0.4571,
    "even": -1.6259,
    "covered": 0.3976,
    "quality": 1.6369,
    "samples": -0.0612,
    "nested": -0.1740,
    "nested_alone": -0.2818,
    "alone": 0.2467,
    "part_quality": 1.1923,
    "part_distinct": -1.0955,
    "part_alike": 0.8091,
    "multiple_quality": 2.8321,
    "multiple_distinct": -2.0975,
    "multiple_alike": 0.4589,
    "shorter": -1.2530,
    "longer": -4.0343,
    "step": 1.8166,
    "part_nested": -1.6854,
    "part_stands": -1.4443,
    "multiple_stands": -1.2057,
    "stands": 4.7037,
    "nested_multiple": -3.0115,
    "quality_log": 0.2243,
    "quality_squared": -1.0165,
    "distinct_many": -1.4839,
    "part_nested_distinct": 8.6465,
}

#: The same for a fold: set by hand on every second MLPerf run, the only traces of slow sources there are.
FOLD_INTERCEPT = -8.2
FOLD_WEIGHTS = {"significance": 2.2, "ahead": 1.2}


def of_track(track: Track, tracks: list[Track], metrics: int, shortest: float) -> dict[str, float]:
    """The evidence for a track.

    Args:
        track: one of `tracks`.
        tracks: all that were followed.
        metrics: how many vary.
        shortest: a shorter cycle is a step [samples of the grid]: no rival of an epoch.
    """
    fit = track.fit
    step = track.samples < shortest
    ratios = [(other, float(np.log(other.samples / track.samples))) for other in tracks]
    parts = [other for other, ratio in ratios if _whole(-ratio)]
    multiples = [other for other, ratio in ratios if _whole(ratio)]
    part, multiple = _best(parts), _best(multiples)
    rivals = [(other, ratio) for other, ratio in ratios if (step and ratio > 0) or other.samples >= shortest]
    shorter = [other.fit.quality for other, ratio in rivals if ratio < -2 * RELATED and not _whole(-ratio)]
    longer = [other.fit.quality for other, ratio in rivals if ratio > 2 * RELATED and not _whole(ratio)]
    part_nested = max((other.fit.nested * other.fit.quality for other in parts), default=0.0)
    multiple_stands = max((_stands(other) for other in multiples), default=0.0)
    return {
        "alike": fit.alike,
        "contrast": fit.contrast,
        "distinct": fit.distinct,
        "distinct_many": fit.distinct * float(np.log(fit.intervals)),
        "stands": _stands(track),
        "intervals": 1 - float(np.exp(-fit.intervals / 1.6)),
        "many": float(np.log(fit.intervals)),
        "spread": float(np.log(fit.spread + 0.003)),
        "even": fit.even,
        "covered": float(np.sqrt(fit.covered)),
        "quality": fit.quality,
        "quality_squared": fit.quality**2,
        "quality_log": float(np.log(fit.quality + 0.02)),
        "samples": float(np.log(track.samples)),
        "alone": 1 / metrics,
        "nested": fit.nested,
        "nested_alone": fit.nested / metrics,
        "nested_multiple": fit.nested * multiple_stands,
        "part_quality": part.quality if part else 0.0,
        "part_distinct": part.distinct if part else 0.0,
        "part_alike": part.alike if part else 0.0,
        "part_stands": max((_stands(other) for other in parts), default=0.0),
        "part_nested": part_nested,
        "part_nested_distinct": part_nested * fit.distinct,
        "multiple_quality": multiple.quality if multiple else 0.0,
        "multiple_distinct": multiple.distinct if multiple else 0.0,
        "multiple_alike": multiple.alike if multiple else 0.0,
        "multiple_stands": multiple_stands,
        "shorter": max(shorter, default=0.0),
        "longer": max(longer, default=0.0),
        "step": float(step),
    }


def _best(tracks: list[Track]) -> Fit | None:
    return max((track.fit for track in tracks), key=lambda fit: fit.quality, default=None)


def _stands(track: Track) -> float:
    """How well a track fits and stands out from everything within it."""
    return track.fit.quality * max(0.0, track.fit.distinct)


def _whole(logarithm: float) -> bool:
    """Whether a ratio is close to one of 2, 3, ..., 10."""
    whole = round(float(np.exp(logarithm))) if logarithm < np.log(MOST + 1) else MOST + 1
    return 2 <= whole <= MOST and abs(logarithm - np.log(whole)) < RELATED


def of_fold(folded: Folded) -> dict[str, float]:
    """The evidence for a folded cycle."""
    return {
        "explained": folded.explained,
        "significance": float(np.log(folded.significance)),
        "ahead": float(np.log(folded.ahead)),
        "covered": folded.covered,
    }


def confidence(evidence: dict[str, float]) -> float:
    """Probability, 0..1, of a track by its evidence, or of a fold by its."""
    if "explained" in evidence:
        intercept, weights = FOLD_INTERCEPT, FOLD_WEIGHTS
    else:
        intercept, weights = TRACK_INTERCEPT, TRACK_WEIGHTS
    logit = intercept + sum(weight * evidence[name] for name, weight in weights.items())
    return float(1 / (1 + np.exp(-logit)))
