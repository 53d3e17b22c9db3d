"""Whether two GPUs train in step: GPUs of one job wait for each other, so that their epochs begin and end together.

It is the only sign where nobody looks at processes. Two jobs of equal epochs that were started together (a search over
hyperparameters does that) differ by little at first, but by another little each time, while what one job shows on two GPUs
differs by how it is sampled alone.
"""

from __future__ import annotations

import numpy as np

from epochcast.analyzer.telemetry.gpu_report import Report

MOST_APART = 0.02
"""The lengths of epochs of one job differ by no more, as a share."""

# Boundaries that belong together lie within this share of an epoch; what is in step already stays so up to the second.
_ALIGNED, _STILL_ALIGNED = 0.05, 0.10

LEAST_EPOCHS = 5
"""Epochs that must have ended together."""

# The share of those that both saw which must.
_SHARE = 0.8

# By how much boundaries may scatter around a constant difference (of clocks, say): so many samples, or this share of an epoch;
# and so many times that for what is in step already.
_SAMPLES, _SCATTER, _STILL = 1.0, 0.007, 3.0

# The newest epochs show whether two jobs have drifted apart.
_NEWEST = 30


def in_step(first: Report, second: Report, *, so_far: bool = False) -> bool:
    """Whether two GPUs run one job, by their epochs alone.

    Args:
        one, other: what is known of them.
        so_far: they were in step the last time: only epochs that ended apart since then part them.
    """
    length, other_length = epoch_length(first), epoch_length(second)
    if length is None or other_length is None:
        return so_far  # nothing speaks against it
    if first.job_since is None or second.job_since is None:
        return False
    longer, shorter = max(length, other_length), min(length, other_length)
    tolerance = _STILL_ALIGNED if so_far else _ALIGNED
    if longer > (1 + (2 if so_far else 1) * MOST_APART) * shorter or abs(first.job_since - second.job_since) > longer:
        return False
    ends, others = (np.array([epoch.end for epoch in report.epochs]) for report in (first, second))
    if not ends.size or not others.size:
        return so_far
    # Only while both were watched: one of them may have been seen earlier, or show less of the past.
    since, until = max(ends[0], others[0]) - longer / 2, min(ends[-1], others[-1]) + longer / 2
    since = max(since, until - _NEWEST * longer)
    ends, others = (each[(each >= since) & (each <= until)] for each in (ends, others))
    if min(ends.size, others.size) < LEAST_EPOCHS:
        return so_far
    if ends.size > others.size:
        ends, others = others, ends
    away = ends[:, None] - others[None, :]
    away = np.take_along_axis(away, np.abs(away).argmin(axis=1)[:, None], axis=1)[:, 0]
    aligned = int((np.abs(away) <= tolerance * longer).sum())
    if aligned < LEAST_EPOCHS or aligned < _SHARE * max(ends.size, others.size):
        return False
    scatter = float(np.quantile(np.abs(away - np.median(away)), _SHARE))
    most = max(_SAMPLES / min(first.hertz, second.hertz), _SCATTER * longer)
    return scatter <= most * (_STILL if so_far else 1.0)


def epochs_decide(first: Report, second: Report) -> bool:
    """Whether both GPUs show enough epochs of one length for `in_step` to know; then nothing else they share counts."""
    length, other_length = epoch_length(first), epoch_length(second)
    if length is None or other_length is None:
        return False
    alike = max(length, other_length) <= (1 + MOST_APART) * min(length, other_length)
    return alike and min(len(first.epochs), len(second.epochs)) >= LEAST_EPOCHS


def epoch_length(report: Report) -> float | None:
    """Seconds of its epochs; None where it shows none."""
    return report.detection.period_s if report.detection.verdict == "epochs" else None
