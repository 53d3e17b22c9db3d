"""Describes a network by numbers that do not grow with its size: the proportions in which it computes and moves data."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from epochcast.analyzer.backends.convmeter.metrics import COMPUTING_KINDS, KINDS
from epochcast.analyzer.backends.convmeter.terms import Columns, column

Array = NDArray[np.float64]


def describe(points: Columns, seconds: Array) -> Array:
    """Describe each point, shape (n, 37): shares of kinds, FLOPs per element moved, and how much an operator has to do.

    Args:
        points: metrics at batch 1 and ``batch``.
        seconds: about how long each takes, above 0, shape (n,); few seconds per operator hint at launches.
    """

    batch, operators = column(points, "batch"), np.maximum(column(points, "operators"), 1)
    flops, traffic = (
        np.maximum(column(points, "flops"), 1),
        np.maximum(sum(column(points, f"{kind}_traffic") for kind in KINDS), 1),
    )
    columns = [
        *(column(points, f"{kind}_flops") / flops for kind in COMPUTING_KINDS),
        *(column(points, f"{kind}_traffic") / traffic for kind in KINDS),
        np.log(flops / traffic),
        np.log(seconds / operators),
        np.log(batch * flops / operators),
        np.log(batch * traffic / operators),
        np.log(traffic),
        column(points, "narrow_flops") / flops,
        np.log(np.maximum(column(points, "conv_inputs"), 1) / np.maximum(column(points, "conv_outputs"), 1)),
        np.log(np.maximum(column(points, "weights"), 1) / traffic),
        np.log((column(points, "conv_weights") + 1) / np.maximum(column(points, "weights"), 1)),
    ]
    for kind in COMPUTING_KINDS:
        kind_flops, moved = column(points, f"{kind}_flops"), column(points, f"{kind}_traffic")
        there = moved > 0
        columns.append(np.where(there, np.log((kind_flops + 1) / (moved + 1)), 0.0))
        columns.append(np.where(there, np.log((batch * moved + 1) / (column(points, f"{kind}_operators") + 1)), 0.0))
    return np.stack(columns, axis=1)
