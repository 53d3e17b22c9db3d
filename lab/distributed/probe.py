"""A few operators measured on a GPU that the model does not know, and what they correct."""

from __future__ import annotations

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.distributed.operator_time.learned import LearnedTimes
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, is_typical

# What a training spends its time in counts more.
_SHARES = {"linear": 0.4, "bmm": 0.3, "normalisation": 0.1, "softmax": 0.1, "elementwise": 0.1}

_LEAST_FLOPS, _LEAST_SIDE, _LEAST_DEPTH = 2e10, 128, 64
"""Products of a probe: those of BERT-large at 8192 tokens have 1.7e10 FLOPs and more. Without these bounds the total time of
large linear layers on a GPU left out is wrong by 16 % in the mean, with them by 10."""

_WITHIN_OVER_BETWEEN = 1.0
"""Variance of an operator about its GPU's mean over that of the GPUs' means about the model without a probe: a mean of n
operators is shrunk to n / (n + 1). Values from 0.4 to 2 do equally well, each of the five public GPUs left out in turn."""

_LEAST_NET = 0.05
"""Least share of a measurement that is not dispatch."""


def choose_probe(measured: pd.DataFrame, count: int, seed: int) -> pd.DataFrame:
    """Draw ``count`` rows of a corpus of one GPU, families by their share in training and products as large as its own.

    Fewer if the corpus has fewer such rows.
    """
    pool = measured[_is_large(measured)]
    present = [family for family in _SHARES if (pool["family"] == family).any()]
    total = sum(_SHARES[family] for family in present)
    quotas = {family: count * _SHARES[family] / total for family in present}
    taken = {family: int(quota) for family, quota in quotas.items()}
    for family in sorted(present, key=lambda name: taken[name] - quotas[name])[: count - sum(taken.values())]:
        taken[family] += 1
    rng = np.random.default_rng(seed)
    drawn = [pool.iloc[:0]]
    for family, quota in taken.items():
        rows = pool[pool["family"] == family]
        drawn.append(rows.iloc[rng.choice(len(rows), min(quota, len(rows)), replace=False)])
    return pd.concat(drawn)


def _is_large(shapes: pd.DataFrame) -> pd.Series:
    """Which rows keep a GPU busy; time goes to large products, and small products say little about them."""
    large = (shapes["flops"] >= _LEAST_FLOPS) & (shapes[["m", "n"]].min(axis=1) >= _LEAST_SIDE) & (shapes["k"] >= _LEAST_DEPTH)
    return is_typical(shapes) & (large | ~shapes["family"].isin(PRODUCTS))


def correct(times: LearnedTimes, probe: pd.DataFrame) -> LearnedTimes:
    """The same times, sharpened by the mean log errors of probed operators (rows of a corpus, measured on this GPU).

    Products share a correction, and what memory bounds shares another, for a GPU's clock and its memory are one; each family
    adds its own on what these leave.
    """
    kernel = times.model.kernel_seconds(probe, times.gpu)
    measured = probe["seconds"].to_numpy(dtype=float)
    net = np.maximum(measured - times.model.dispatch_seconds(probe, times.gpu), _LEAST_NET * measured)
    table = pd.DataFrame({"error": np.log(net / kernel), "weight": (net / measured) ** 2, "family": probe["family"].to_numpy()})
    table["limit"] = table["family"].isin(PRODUCTS)
    corrections: dict[str, float] = {}
    for limit, rows in table.groupby("limit"):
        shared = _shrunk_mean(rows["error"], rows["weight"])
        corrections |= {family: shared for family in _SHARES if (family in PRODUCTS) == limit}
        for family, own in rows.groupby("family"):
            corrections[str(family)] = shared + _shrunk_mean(own["error"] - shared, own["weight"])
    return LearnedTimes(times.gpu, times.model, times.tf32, corrections)


def _shrunk_mean(error: pd.Series, weight: pd.Series) -> float:
    return float((error * weight).sum() / (weight.sum() + _WITHIN_OVER_BETWEEN))
