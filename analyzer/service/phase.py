"""Whether two GPUs train in step: GPUs of one job wait for each other, so that their epochs begin and end together.

This is all that tells where nobody looks at processes. Two jobs of equal epochs that were started together look alike at first
(a search over hyperparameters does that) and drift apart later: so much alignment is asked for, and it is looked for again with
each epoch.
"""

from __future__ import annotations

import numpy as np

from ..live.report import Report

# The lengths of epochs of one job differ by no more, as a share.
_PERIOD = 0.02

# Boundaries that belong together lie within this share of an epoch; what is in step already stays so up to the second.
_ALIGNED, _STILL_ALIGNED = 0.05, 0.10

# Epochs that must have ended together, and the share of those that both saw which must.
_LEAST, _SHARE = 4, 0.8

# The newest epochs tell whether two jobs have drifted apart.
_NEWEST = 30


def in_step(one: Report, other: Report, *, so_far: bool = False) -> bool:
    """Whether two GPUs run one job, by their epochs alone.

    Args:
        one, other: what is known of them.
        so_far: they were in step the last time: only epochs that ended apart since then part them.
    """
    if one.verdict != "epochs" or other.verdict != "epochs" or not one.period_s or not other.period_s:
        return so_far  # nothing speaks against it
    if one.job_since is None or other.job_since is None:
        return False
    longer, shorter = max(one.period_s, other.period_s), min(one.period_s, other.period_s)
    tolerance = _STILL_ALIGNED if so_far else _ALIGNED
    if longer > (1 + (2 if so_far else 1) * _PERIOD) * shorter or abs(one.job_since - other.job_since) > longer:
        return False
    ends, others = (np.array([epoch.end for epoch in report.epochs]) for report in (one, other))
    if not ends.size or not others.size:
        return so_far
    # Only while both were watched: one of them may have been seen earlier, or tell less of the past.
    since, until = max(ends[0], others[0]) - longer / 2, min(ends[-1], others[-1]) + longer / 2
    ends, others = (each[(each >= since) & (each <= until)][-_NEWEST:] for each in (ends, others))
    if min(ends.size, others.size) < _LEAST:
        return so_far
    if ends.size > others.size:
        ends, others = others, ends
    away = np.abs(ends[:, None] - others[None, :]).min(axis=1) / longer
    aligned = int((away <= tolerance).sum())
    return aligned >= _LEAST and aligned >= _SHARE * max(ends.size, others.size)
