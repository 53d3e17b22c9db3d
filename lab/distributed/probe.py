"""A few operators measured on a GPU that the model does not know, and what they correct."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.backends.distributed.operator_time.learned import OperatorModel
from epochcast.analyzer.backends.distributed.operator_time.shapes import PRODUCTS, places_by
from epochcast.regressor import Gpu
from lab.distributed.operator_rows import is_typical

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


@dataclass(frozen=True)
class ProbedTimes:
    """Operator times of one GPU.

    Attributes:
        gpu: of the catalogue, measured or not.
        model: what was learned.
        corrections: log factor by family, from a probe of the GPU (:func:`correct`).
    """

    gpu: Gpu
    model: OperatorModel
    corrections: Mapping[str, float] = field(default_factory=dict)

    def seconds_of(self, shapes: pd.DataFrame) -> NDArray[np.float64]:
        """Seconds of rows of :data:`.shapes.SHAPE_COLUMNS`, shape (n,)."""
        factor = shapes["family"].map(lambda family: np.exp(self.corrections.get(family, 0.0))).to_numpy(dtype=float)
        answer: NDArray[np.float64] = self.model.kernel_seconds(shapes, self.gpu) * factor
        return answer

    def measured_seconds_of(self, shapes: pd.DataFrame) -> NDArray[np.float64]:
        """What measuring each row by itself would answer: with the host's dispatch, shape (n,)."""
        return self.seconds_of(shapes) + dispatch_seconds(self.model, shapes, self.gpu)


def dispatch_seconds(model: OperatorModel, shapes: pd.DataFrame, gpu: Gpu) -> NDArray[np.float64]:
    """Seconds that measuring each operator by itself adds, shape (n,)."""
    seconds = np.zeros(len(shapes))
    for (family, dtype), place in places_by(shapes, "family", "dtype").items():
        seconds[place] = np.exp(model.rates(family, gpu, dtype).dispatch)
    return seconds


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


def correct(times: ProbedTimes, probe: pd.DataFrame) -> ProbedTimes:
    """The same times, sharpened by the mean log errors of probed operators (rows of a corpus, measured on this GPU).

    Products share a correction, and what memory bounds shares another, for a GPU's clock and its memory are one; each family
    adds its own on what these leave.
    """
    kernel = times.model.kernel_seconds(probe, times.gpu)
    measured = probe["seconds"].to_numpy(dtype=float)
    net = np.maximum(measured - dispatch_seconds(times.model, probe, times.gpu), _LEAST_NET * measured)
    table = pd.DataFrame({"error": np.log(net / kernel), "weight": (net / measured) ** 2, "family": probe["family"].to_numpy()})
    table["limit"] = table["family"].isin(PRODUCTS)
    corrections: dict[str, float] = {}
    for limit, rows in table.groupby("limit"):
        shared = _shrunk_mean(rows["error"], rows["weight"])
        corrections |= {family: shared for family in _SHARES if (family in PRODUCTS) == limit}
        for family, own in rows.groupby("family"):
            corrections[str(family)] = shared + _shrunk_mean(own["error"] - shared, own["weight"])
    return ProbedTimes(times.gpu, times.model, corrections)


def _shrunk_mean(error: pd.Series, weight: pd.Series) -> float:
    return float((error * weight).sum() / (weight.sum() + _WITHIN_OVER_BETWEEN))
