"""Terms that seconds are a weighted sum of, from the metrics of a network at batch 1, its batch and the number of devices."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.metrics import COMPUTING_KINDS, KINDS

Array = NDArray[np.float64]

Columns = pd.DataFrame | Mapping[str, Array]
"""Points, as a table or as its columns alone: of one network the latter are predicted in a fraction of the time."""


def paper_terms(points: Columns, phase: str, several: bool) -> Array:
    """The terms of Eq. 2 to 4 on one device or on several, shape (n, 1 to 7).

    Forward and backward pass and inference: b·FLOPs, b·Inputs, b·Outputs, 1 (Eq. 3). Update: L on one device; L, W and N on
    several (Eq. 4). Step: all of them, as the seven coefficients of backward pass and update together; on one device N is
    no more than the constant, and left out.
    """
    batch, layers, weights, devices = (column(points, name) for name in ("batch", "layers", "weights", "devices"))
    passes = [*(batch * column(points, name) for name in ("flops", "conv_inputs", "conv_outputs")), np.ones_like(batch)]
    if phase == "update":
        return np.stack([layers, weights, devices] if several else [layers], axis=1)
    if phase == "step":
        return np.stack([*passes, layers, weights, *([devices] if several else [])], axis=1)
    return np.stack(passes, axis=1)


def compute_terms(points: Columns) -> Array:
    """b·FLOPs of each kind of layer that computes, shape (n, 6)."""
    return np.stack([column(points, "batch") * column(points, f"{kind}_flops") for kind in COMPUTING_KINDS], axis=1)


def traffic_terms(points: Columns) -> Array:
    """b·(elements read and written) of each kind of layer, shape (n, 10)."""
    return np.stack([column(points, "batch") * column(points, f"{kind}_traffic") for kind in KINDS], axis=1)


def weight_terms(points: Columns) -> Array:
    """Weights of everything but dense layers, and of dense layers, which a small batch waits for; shape (n, 2)."""
    dense = column(points, "linear_weights")
    return np.stack([column(points, "weights") - dense, dense], axis=1)


def other_terms(points: Columns) -> Array:
    """Besides kinds of layers: b·FLOPs of narrow convolutions, b·Outputs, operators (a launch each), b and 1; shape (n, 5)."""
    batch = column(points, "batch")
    growing = [batch * column(points, name) for name in ("narrow_flops", "conv_outputs")]
    return np.stack([*growing, column(points, "operators"), batch, np.ones_like(batch)], axis=1)


def network_terms(points: Columns) -> Array:
    """What does not grow with the batch on one device: W, operators (a launch each), 1; shape (n, 3)."""
    weights = column(points, "weights")
    return np.stack([weights, column(points, "operators"), np.ones_like(weights)], axis=1)


def update_terms(points: Columns) -> Array:
    """Of the optimiser on one device, with P parameter tensors: W (a pass over memory), P (launches), 1, W·W/P; shape (n, 4).

    W/P is the mean tensor: what fits into a cache between two passes over it is updated faster than what does not.
    """
    weights, tensors = column(points, "weights"), column(points, "parameter_tensors")
    return np.stack([weights, tensors, np.ones_like(weights), weights * weights / np.maximum(tensors, 1)], axis=1)


def exchange_terms(points: Columns) -> Array:
    """Of the exchange of gradients, 0 on one device: shape (n, 6), among devices and then among nodes.

    W·(N−1)/N is what each link of a ring carries; W·log2 N and P·log2 N the rounds of a tree or of halving and doubling, P the
    number of parameter tensors. All three tend to keep growing or to settle as measured exchanges do, so that fits on one and
    two devices carry over to four (the linear N of Eq. 4 does not: docs/convmeter.md).
    """
    weights, tensors = column(points, "weights"), column(points, "parameter_tensors")
    terms = []
    for number in (column(points, "devices"), column(points, "nodes")):
        rounds = np.log2(number)
        terms += [weights * (number - 1) / number, weights * rounds, tensors * rounds]
    return np.stack(terms, axis=1)


def column(points: Columns, name: str) -> Array:
    """One column, shape (n,)."""
    return np.asarray(points[name], dtype=np.float64)
