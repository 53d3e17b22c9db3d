"""Terms that seconds are a weighted sum of, from the metrics of a network at batch 1, its batch and the number of devices."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .metrics import COMPUTING_KINDS, KINDS

Array = NDArray[np.float64]


def paper_terms(points: pd.DataFrame, phase: str) -> Array:
    """The terms of Eq. 2 to 4 on one device, or on several where the points have them; shape (n, 1 to 7).

    Forward and backward pass and inference: b·FLOPs, b·Inputs, b·Outputs, 1 (Eq. 3). Update: L on one device; L, W and N on
    several (Eq. 4). Step: all of them, as the seven coefficients of backward pass and update together; on one device N is
    no more than the constant, and left out.
    """
    batch, one = _column(points, "batch"), np.ones(len(points))
    layers, weights, devices = (_column(points, name) for name in ("layers", "weights", "devices"))
    several = bool((devices > 1).all())
    passes = [*(batch * _column(points, name) for name in ("flops", "conv_inputs", "conv_outputs")), one]
    if phase == "update":
        return np.stack([layers, weights, devices] if several else [layers], axis=1)
    if phase == "step":
        return np.stack([*passes, layers, weights, *([devices] if several else [])], axis=1)
    return np.stack(passes, axis=1)


def compute_terms(points: pd.DataFrame) -> Array:
    """b·FLOPs of each kind of layer that computes, shape (n, 6)."""
    return np.stack([_column(points, "batch") * _column(points, f"{kind}_flops") for kind in COMPUTING_KINDS], axis=1)


def traffic_terms(points: pd.DataFrame) -> Array:
    """b·(elements read and written) of each kind of layer, shape (n, 10)."""
    return np.stack([_column(points, "batch") * _column(points, f"{kind}_traffic") for kind in KINDS], axis=1)


def weight_terms(points: pd.DataFrame) -> Array:
    """Weights of everything but dense layers, and of dense layers, which a small batch waits for; shape (n, 2)."""
    dense = _column(points, "linear_weights")
    return np.stack([_column(points, "weights") - dense, dense], axis=1)


def other_terms(points: pd.DataFrame) -> Array:
    """Beside kinds of layers: b·FLOPs of narrow convolutions, b·Outputs, operators (a launch each), b and 1; shape (n, 5)."""
    batch = _column(points, "batch")
    growing = [batch * _column(points, name) for name in ("narrow_flops", "conv_outputs")]
    return np.stack([*growing, _column(points, "operators"), batch, np.ones(len(points))], axis=1)


def network_terms(points: pd.DataFrame) -> Array:
    """What does not grow with the batch on one device: W, operators (a launch each), 1; shape (n, 3)."""
    return np.stack([_column(points, "weights"), _column(points, "operators"), np.ones(len(points))], axis=1)


def update_terms(points: pd.DataFrame) -> Array:
    """Of the optimiser on one device, with P parameter tensors: W (a pass over memory), P (launches), 1, W·W/P; shape (n, 4).

    W/P is the mean tensor: what fits into a cache between two passes over it is updated faster than what does not.
    """
    weights, tensors = _column(points, "weights"), _column(points, "parameter_tensors")
    return np.stack([weights, tensors, np.ones(len(points)), weights * weights / np.maximum(tensors, 1)], axis=1)


def exchange_terms(points: pd.DataFrame) -> Array:
    """Of the exchange of gradients, 0 on one device: shape (n, 6), among devices and then among nodes.

    W·(N−1)/N is what each link of a ring carries; W·log2 N and P·log2 N the rounds of a tree or of halving and doubling, P the
    number of parameter tensors. All three tend to keep growing or to settle as measured exchanges do, so that fits on one and
    two devices carry over to four (the linear N of Eq. 4 does not: docs/convmeter.md).
    """
    weights, tensors = _column(points, "weights"), _column(points, "parameter_tensors")
    terms = []
    for number in (_column(points, "devices"), _column(points, "nodes")):
        rounds = np.log2(number)
        terms += [weights * (number - 1) / number, weights * rounds, tensors * rounds]
    return np.stack(terms, axis=1)


def _column(points: pd.DataFrame, name: str) -> Array:
    return points[name].to_numpy(dtype=np.float64)
