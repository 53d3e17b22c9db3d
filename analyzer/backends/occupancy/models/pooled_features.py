"""A whole graph as one row of numbers, for models that know no graphs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..features import NODE_NAMES, WORD_COLUMNS, Rows, node_features
from ..graph.vocabulary import VOCABULARY
from ..sample import Sample

_OTHERS = NODE_NAMES[WORD_COLUMNS.stop :]
_BYTES = ("read_bytes", "written_bytes", "temporary_bytes", "weights_bytes")
_MOVED = ("read_bytes", "written_bytes", "weights_bytes")
_STATISTICS = ("mean", "deviation", "largest")

POOLED_NAMES = (
    *(f"{share} in {word}" for share in ("operators", "flops", "bytes") for word in VOCABULARY),
    *("operators", "edges", "flops", *_BYTES),
    *(f"{statistic} {name}" for statistic in _STATISTICS for name in _OTHERS),
    "bandwidth",
)
"""Columns of :func:`pooled_features`: what share of the operators, FLOPs and bytes falls to each word; totals; statistics over
the operators of their hyper-parameters and sizes, the GPU among them. Totals and statistics are of log(1 + x)."""


def pooled_features(samples: Sequence[Sample]) -> Rows:
    """One row per sample, shape (n, len(POOLED_NAMES)); a precision that is not known raises InputError."""
    return np.stack([_row(sample) for sample in samples]) if samples else np.zeros((0, len(POOLED_NAMES)), np.float32)


def _row(sample: Sample) -> Rows:
    nodes = node_features(sample).astype(np.float64)
    words, others = nodes[:, WORD_COLUMNS], nodes[:, WORD_COLUMNS.stop :]
    plain = {name: np.expm1(others[:, _OTHERS.index(name)]) for name in ("flops", *_BYTES)}
    moved = sum((plain[name] for name in _MOVED), start=np.zeros(len(nodes)))
    shares = [weight @ words / max(float(weight.sum()), 1.0) for weight in (np.ones(len(nodes)), plain["flops"], moved)]
    totals = [len(nodes), sample.graph.edges.shape[1], *(values.sum() for values in plain.values())]
    statistics = [others.mean(axis=0), others.std(axis=0), others.max(axis=0)]
    row = np.concatenate([*shares, np.log1p(totals), *statistics, [np.log1p(sample.gpu.memory_bandwidth)]])
    return row.astype(np.float32)
