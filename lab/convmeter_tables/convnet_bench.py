"""``convnet.csv`` of ``convnet_bench.py``, with the metrics that come with the product."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import KEYS, TIMES, known_metrics
from lab.convmeter_tables.joins import with_family, with_metrics
from lab.convmeter_tables.measured_networks import measured_networks, recognises

__all__ = ["read", "recognises"]


def read(table: pd.DataFrame, path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    """A point per network or block, images, batch and precision, on one device."""
    rows = measured_networks(table, path).assign(devices=1.0, nodes=1.0)
    metrics = known_metrics()
    blocks = metrics[metrics["block"] != ""]
    paths = dict(zip(zip(blocks["network"], blocks["block_name"], strict=True), blocks["block"], strict=True))
    rows = rows.assign(block=[paths.get(name, name[1]) for name in zip(rows["network"], rows["block"], strict=True)])
    return with_metrics(with_family(rows.reindex(columns=[*KEYS, *TIMES]), metrics), metrics)
