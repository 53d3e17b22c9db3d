"""Ways to fit a weighted sum of terms to seconds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Array = NDArray[np.float64]

SHORTEST = 1e-9
"""Seconds: the least that a form predicts."""

_ROUNDS = 12
_SMALL = 0.05  # relative errors below are as good as none: squared there, absolute beyond
_MOST_STEPS = 100  # of the active set, per term


def ordinary(X: Array, y: Array) -> Array:
    """Coefficients of ordinary least squares, as the paper fits; shapes (n, k) and (n,) -> (k,)."""
    scale = _scale(X)
    coefficients: Array = np.linalg.lstsq(X / scale, y, rcond=None)[0] / scale
    return coefficients


def relative(X: Array, y: Array) -> Array:
    """Coefficients of 0 or more with the least sum of squared relative errors, Σ (X·c/y − 1)²; shapes as :func:`ordinary`."""
    A = X / y[:, None]
    scale = _scale(A)
    return _non_negative(A / scale, np.ones(len(y))) / scale


def robust(X: Array, y: Array, penalties: Array) -> Array:
    """Coefficients of 0 or more with the least sum of |log(X·c/y)| (squared below 5 %), plus |penalties·c|².

    Iteratively reweighted: with r = X·c/y, (r − 1)² is weighed so that it represents log² r / max(|log r|, 5 %).

    Args:
        X: shape (n, k), of a scale on which coefficients of one size are as likely.
        y: seconds above 0, shape (n,).
        penalties: shape (p, k), a row for each sum of coefficients that should be near 0.
    """
    A, weight = X / y[:, None], np.full(len(y), _SMALL**-0.5)
    target = np.r_[weight, np.zeros(len(penalties))]
    coefficients = _non_negative(np.r_[A * weight[:, None], penalties], target)
    for _ in range(_ROUNDS):
        ratio = np.maximum(A @ coefficients, 1e-3)
        logarithm = np.abs(np.log(ratio))
        slope = np.where(np.abs(ratio - 1) > 1e-6, logarithm / np.maximum(np.abs(ratio - 1), 1e-6), 1.0)
        weight = slope / np.sqrt(np.maximum(logarithm, _SMALL))
        before = coefficients
        coefficients = _non_negative(np.r_[A * weight[:, None], penalties], np.r_[weight, np.zeros(len(penalties))])
        if np.allclose(before, coefficients, rtol=1e-3, atol=1e-6):
            break
    return coefficients


def _non_negative(A: Array, b: Array) -> Array:
    coefficients: Array = nnls(A, b, maxiter=_MOST_STEPS * A.shape[1])[0]
    return coefficients


def _scale(X: Array) -> Array:
    """The norm of each column, 1 for one of zeros: without it, billions of elements would be mixed with single launches."""
    norm: Array = np.sqrt((X**2).sum(axis=0))
    return np.where(norm > 0, norm, 1.0)
