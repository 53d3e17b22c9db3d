"""How well detections agree with labels: one score per trace, summaries of many, and what a confidence is worth.

Definitions: the true period is the median difference of the epoch starts. On the work clock both periods are in work seconds,
the truth mapped through the clock's own readings. An answer is right if its period is within 5 % of the true one.
"""

from lab.evaluate.detection.boundaries import boundary_error, boundary_f1, lagged_boundary_f1
from lab.evaluate.detection.regimes import score_regimes, true_regimes
from lab.evaluate.detection.scores import TOLERANCE, TraceScore, evaluate_trace, period_error, score_trace
from lab.evaluate.detection.summary import (
    RESOLVED,
    THRESHOLDS,
    by_threshold,
    macro_average,
    reliability,
    resolved,
    summarise,
)

__all__ = [
    "RESOLVED",
    "THRESHOLDS",
    "TOLERANCE",
    "TraceScore",
    "boundary_error",
    "boundary_f1",
    "by_threshold",
    "evaluate_trace",
    "lagged_boundary_f1",
    "macro_average",
    "period_error",
    "reliability",
    "resolved",
    "score_regimes",
    "score_trace",
    "summarise",
    "true_regimes",
]
