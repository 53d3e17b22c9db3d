"""Fit the operator model to a corpus: rates of each GPU and the trees that all share, in turns."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import least_squares

from epochcast.analyzer.backends.distributed.operator_time.learned import (
    FamilyModel,
    Ideal,
    OperatorModel,
    Rates,
    features_of,
    ideal_of,
)
from epochcast.analyzer.backends.distributed.operator_time.shapes import places_by
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog
from lab.distributed.boosting import fit_boosting
from lab.distributed.operator_rows import FAMILIES, is_typical

_ROUNDS = 2
_OUTLIER = 0.1
"""Log ratio from which a residual counts less than squared: cuBLAS takes an unlucky kernel now and then."""

_PRIOR, _PRIOR_WIDTH, _PRIOR_WEIGHT = 0.3, 0.5, 0.03
"""Rates without a measured row: kernels reach about three quarters of the data sheet."""

_LEAST_NET = 0.05
"""Least share of a measurement that is not dispatch."""

_FEWEST = 3
"""Measured rows of a family in a dtype from which a GPU has rates of its own; the prior holds them while they are few."""

_UNTYPICAL = 0.1
"""Weight of products that no training has (:func:`.operator_rows.is_typical`)."""


def fit_operators(corpus: pd.DataFrame, catalog: Catalog) -> OperatorModel:
    """Learn operator times from a corpus (:mod:`epochcast.analyzer.backends.distributed.operator_time.table`).

    A family with fewer than three rows in a dtype of a GPU does not count there.

    Raises:
        InputError: no family has enough rows, or a GPU lacks a dtype that the corpus measured on it.
    """
    if unknown := sorted(set(corpus["gpu"]) - set(catalog)):
        raise InputError(f"the corpus holds operators of {unknown[0]!r}, which the catalogue does not have; leave them out")
    families = {}
    for family in FAMILIES:
        rows = corpus[corpus["family"] == family]
        devices = {device: place for device, place in places_by(rows, "gpu", "dtype").items() if len(place) >= _FEWEST}
        if devices:
            families[family] = _fit_family(family, rows, devices, catalog)
    if not families:
        raise InputError(f"the corpus has {len(corpus)} operators; learning needs {_FEWEST} of a family on a GPU")
    names = {gpu for model in families.values() for gpu, _ in model.rates}
    boards = {name: (catalog[name].tdp, catalog[name].compute_capability) for name in sorted(names)}
    return OperatorModel(families, boards)


def _fit_family(
    family: str, rows: pd.DataFrame, devices: dict[tuple[str, str], NDArray[np.intp]], catalog: Catalog
) -> FamilyModel:
    seconds = rows["seconds"].to_numpy(dtype=float)
    ideals = {key: ideal_of(rows.iloc[place], catalog[key[0]], key[1]) for key, place in devices.items()}
    shortfall = np.zeros(len(rows))  # g(x) of each row
    worth = np.where(is_typical(rows), 1.0, _UNTYPICAL)
    order = np.concatenate(list(devices.values()))
    for _ in range(_ROUNDS):
        rates, tables, targets, weights = {}, [], [], []
        for key, place in devices.items():
            ideal, measured = ideals[key], seconds[place]
            rates[key] = fit_rates(ideal, measured, shortfall[place], worth[place])
            net = np.maximum(measured - np.exp(rates[key].dispatch), _LEAST_NET * measured)
            tables.append(features_of(family, rows.iloc[place], catalog[key[0]], ideal, rates[key]))
            targets.append(np.log(net / rates[key].bound(ideal)))
            weights.append(worth[place] * (net / measured) ** 2)
        X = np.concatenate(tables)
        trees = fit_boosting(X, np.concatenate(targets), np.concatenate(weights))
        shortfall[order] = trees.predict(X)
    return FamilyModel(trees, rates)


def fit_rates(ideal: Ideal, seconds: NDArray[np.float64], shortfall: NDArray[np.float64], weight: NDArray[np.float64]) -> Rates:
    """Rates that make ``bound · exp(shortfall) + dispatch`` the measured seconds, shape (n,) each, in log space."""
    factor, root = np.exp(shortfall), np.sqrt(weight)
    pull = _PRIOR_WEIGHT * np.sqrt(weight.sum()) / _PRIOR_WIDTH

    def residuals(point: NDArray[np.float64]) -> NDArray[np.float64]:
        rates = Rates(*point)
        predicted = rates.bound(ideal) * factor + np.exp(rates.dispatch)
        prior = pull * np.array([rates.compute - _PRIOR, rates.memory - _PRIOR])
        return np.concatenate([root * np.log(predicted / seconds), prior])

    start = [_PRIOR, _PRIOR, float(np.log(seconds.min()))]
    solution = least_squares(residuals, start, loss="soft_l1", f_scale=_OUTLIER, diff_step=np.array(1e-4))
    return Rates(*(float(value) for value in solution.x))
