"""How probably a cycle is the epoch, that is, its period within 5 % of the true one.

A small neural network (one hidden layer) weighs what is known of a track and of its rivals. The tracker chooses by its answer
and states it as confidence. `benchmarks/detector/calibrate.py` fitted it, on simulated traces of all classes and every second
MLPerf run, and wrote `confidence.json`.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from .boundaries import Fit, Track
from .folding import Folded

#: Periods whose ratio is this close (in logarithm) to a whole number belong together; to one, they are the same.
RELATED = 0.05

#: Ratios beyond are not looked at.
MOST = 10

#: Evidence further from its mean than so many standard deviations is taken to be there: no trace was ever seen beyond.
FARTHEST = 5.0

#: Of a fold, a logistic regression, by hand on every second MLPerf run: there are no other traces of slow sources.
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
    parts = [other for other, ratio in ratios if whole(-ratio)]
    multiples = [other for other, ratio in ratios if whole(ratio)]
    part, multiple = _best(parts), _best(multiples)
    rivals = [(other, ratio) for other, ratio in ratios if (step and ratio > 0) or other.samples >= shortest]
    shorter = [other.fit.quality for other, ratio in rivals if ratio < -2 * RELATED and not whole(-ratio)]
    longer = [other.fit.quality for other, ratio in rivals if ratio > 2 * RELATED and not whole(ratio)]
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
        "samples": float(np.log(track.samples)),
        "alone": 1 / metrics,
        "nested": fit.nested,
        "nested_alone": fit.nested / metrics,
        "part_quality": part.quality if part else 0.0,
        "part_distinct": part.distinct if part else 0.0,
        "part_alike": part.alike if part else 0.0,
        "part_stands": max((_stands(other) for other in parts), default=0.0),
        "part_nested": max((other.fit.nested * other.fit.quality for other in parts), default=0.0),
        "multiple_quality": multiple.quality if multiple else 0.0,
        "multiple_distinct": multiple.distinct if multiple else 0.0,
        "multiple_alike": multiple.alike if multiple else 0.0,
        "multiple_stands": max((_stands(other) for other in multiples), default=0.0),
        "shorter": max(shorter, default=0.0),
        "longer": max(longer, default=0.0),
        "step": float(step),
    }


def _best(tracks: list[Track]) -> Fit | None:
    return max((track.fit for track in tracks), key=lambda fit: fit.quality, default=None)


def _stands(track: Track) -> float:
    """How well a track fits and stands out from everything within it."""
    return track.fit.quality * max(0.0, track.fit.distinct)


def whole(logarithm: float) -> bool:
    """Whether a ratio is close to one of 2, 3, ..., 10."""
    nearest = round(float(np.exp(logarithm))) if logarithm < np.log(MOST + 1) else MOST + 1
    return 2 <= nearest <= MOST and abs(logarithm - np.log(nearest)) < RELATED


def of_fold(folded: Folded) -> dict[str, float]:
    """The evidence for a folded cycle."""
    return {
        "explained": folded.explained,
        "significance": float(np.log(folded.significance)),
        "ahead": float(np.log(folded.ahead)),
        "covered": folded.covered,
    }


def confidence(evidence: Mapping[str, float]) -> float:
    """Probability, 0..1, of a track by its evidence, or of a fold by its."""
    if "explained" in evidence:
        logit = FOLD_INTERCEPT + sum(weight * evidence[name] for name, weight in FOLD_WEIGHTS.items())
        return float(1 / (1 + np.exp(-logit)))
    return probability(evidence, _weights())


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
def _weights() -> dict[str, Any]:
    read = json.loads((files(__package__) / "confidence.json").read_text())
    return {name: value if name == "names" else np.array(value) for name, value in read.items()}
