"""Detected against true epochs of one trace, in the words and figures of the report."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...detector import Detection
from ...detector.evaluation import TOLERANCE, Labels, period_error, score_trace
from ..answers.reasons import REASONS
from ..traces.trace import Trace


def compare(trace: Trace, labels: Labels, found: Detection) -> dict[str, Any]:
    """How well ``found`` agrees with ``labels``; keys of ``summary.json``'s ``live`` and ``replay``.

    ``true_period_s``, ``period_s`` and ``error_percent`` are wall time. ``found`` says whether the error is within 5 % on the
    clock that the detector searched on (``clock``; design: "Error figures", epochs); an abstention is a miss.
    """
    score = score_trace("demo", found, labels, trace.time, trace.metrics())
    true_period = float(np.median(np.diff(labels.epoch_starts)))
    hit = score.error is not None and score.error <= 100 * TOLERANCE
    return {
        "true_period_s": true_period,
        "period_s": found.period_s,
        "verdict": found.verdict,
        "confidence": found.confidence,
        "found": hit,
        "sentence": _sentence(found, true_period, score.error),
        "error_percent": None if found.period_s is None else period_error(found.period_s, true_period),
        "clock": found.clock,
        "period_work": found.period_work,
        "true_period_work": score.true_period if found.clock == "work" else None,
        "error_work_percent": score.error if found.clock == "work" else None,
        "boundary_f1": score.boundary_f1,
        "boundaries": _boundaries(trace, labels, found, true_period),
        "samples": len(trace.frame),
        "missed_ticks": trace.missed_ticks,
    }


def _sentence(found: Detection, true_period: float, error: float | None) -> str:
    if found.reason is not None:
        why = REASONS[found.reason]
        return f"The detector abstained; true epochs are {true_period:.2f} s long. {why[0].upper()}{why[1:]}"
    if found.period_s is None or error is None:
        return (
            f"The detector abstained (confidence {found.confidence:.2f}): the epochs of {true_period:.2f} s do not stand out"
            " clearly enough from what else this telemetry shows."
        )
    clock = " of work" if found.clock == "work" else ""
    unit = "Epochs" if found.verdict == "epochs" else "Cycles (too short to be called epochs)"
    if error <= 100 * TOLERANCE:
        return f"{unit} of {found.period_s:.2f} s, {true_period:.2f} s in truth; {error:.1f} % off in seconds{clock}."
    return (
        f"{unit} of {found.period_s:.2f} s, {found.period_s / true_period:.2f} times the true {true_period:.2f} s;"
        f" {error:.0f} % off in seconds{clock}, with confidence {found.confidence:.2f}."
    )


def _boundaries(trace: Trace, labels: Labels, found: Detection, true_period: float) -> list[dict[str, Any]]:
    """Each true epoch start with the nearest detected boundary, in seconds since the first sample."""
    detected = np.unique([time for epoch in found.epochs for time in (epoch.start, epoch.end)])
    origin = float(trace.time[0])
    rows: list[dict[str, Any]] = []
    for true in labels.epoch_starts:
        nearest = float(detected[np.abs(detected - true).argmin()]) if detected.size else None
        rows.append(
            {
                "true_s": true - origin,
                "found_s": None if nearest is None else nearest - origin,
                "difference_s": None if nearest is None else nearest - true,
                "within": nearest is not None and abs(nearest - true) <= TOLERANCE * true_period,
            }
        )
    return rows
