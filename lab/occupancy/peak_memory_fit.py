"""Fitting the trees and the risk of :class:`.peak_memory.PeakMemory` to measured trainings."""

from __future__ import annotations

import numpy as np

from epochcast.analyzer.backends.occupancy.peak_memory import Floats, PeakMemory, demand, estimates, rows_of
from epochcast.analyzer.errors import InputError
from epochcast.regressor.scoring import conformal_quantile
from epochcast.regressor.trees import Trees
from lab.distributed.boosting import fit_boosting
from lab.evaluate.common import random_folds
from lab.occupancy.training_jobs import TrainingJobs

_FOLDS = 8


def fit_peak_memory(jobs: TrainingJobs) -> PeakMemory:
    """Fit on measured trainings; too few networks that ran to the end raise InputError."""
    fits, measured = jobs.points["fits"].to_numpy(dtype=bool), jobs.points["peak_memory"].to_numpy(dtype=float)
    networks = jobs.points["layers"].to_numpy(dtype=str)
    count = len(set(networks[fits]))
    if count < 2 * _FOLDS:
        raise InputError(f"{count} networks ran to the end; give {2 * _FOLDS} or more with their peak memory")
    memory = estimates(jobs.samples)
    rows = rows_of(jobs.samples, memory)
    logarithms = np.log(measured / memory[:, 0])
    trees = _fit(rows[fits], logarithms[fits])
    folds, unseen = random_folds(networks, _FOLDS, 0), np.zeros(len(fits))
    for fold in np.unique(folds):
        test = folds == fold
        unseen[test] = _fit(rows[fits & ~test], logarithms[fits & ~test]).predict(rows[test])
    half_width = conformal_quantile(logarithms[fits] - unseen[fits])
    risk: Floats | None = None
    if not fits.all():
        from sklearn.linear_model import LogisticRegression

        # rows are few, yet two figures need no penalty
        model = LogisticRegression(C=np.inf, max_iter=1000).fit(demand(jobs.samples, memory, unseen), ~fits)
        risk = np.append(model.coef_[0], model.intercept_)
    return PeakMemory(trees, half_width, risk)


def _fit(rows: Floats, values: Floats) -> Trees:
    import sklearn.ensemble  # noqa: F401 - its threads can be limited once it is loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):  # as in models.py
        return fit_boosting(rows, values, np.ones(len(rows)))
