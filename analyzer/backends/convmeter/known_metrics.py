"""Metrics of torchvision's ConvNets and of some of their blocks, counted in advance: they need no torch."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, NetworkMetrics

TABLE = Path(__file__).with_name("known_metrics.csv.gz")


@cache
def known_metrics() -> pd.DataFrame:
    """One row per network or block and image size; do not change it, every call gives the same.

    Columns: ``network`` (torchvision's name), ``family`` (torchvision's module, such as resnet), ``block`` (path, empty for the
    whole network), ``block_name`` (class and number, as Table 2 writes them), ``image_size`` and :data:`.metrics.COLUMNS`.
    Image sizes that a network is too deep for are not there. `lab/speed/convmeter/known_metrics.py` makes the table.
    """
    return pd.read_csv(TABLE, keep_default_na=False, dtype=dict.fromkeys(COLUMNS, float) | {"image_size": int})


def find_known(network: str, image_size: int, block: str = "") -> NetworkMetrics | None:
    """A row of the table by network and by path or name of the block; None if it is not there."""
    table = known_metrics()
    rows = table[(table["network"] == network) & (table["image_size"] == image_size)]
    rows = rows[(rows["block"] == block) | (rows["block_name"] == block)]
    if rows.empty:
        return None
    row = rows.iloc[0]
    return NetworkMetrics(network, str(row["block"]), image_size, {name: float(row[name]) for name in COLUMNS})
