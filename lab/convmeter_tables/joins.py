"""Puts counted metrics and families into rows of measurements."""

from __future__ import annotations

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS

_ON = ["network", "block", "image_size"]


def with_metrics(rows: pd.DataFrame, metrics: pd.DataFrame | None) -> pd.DataFrame:
    """Add the columns of ``metrics.py`` to rows of the same network, block and image size; NaN where there are none."""
    if metrics is None:
        return rows.reindex(columns=[*rows.columns, *COLUMNS])
    return rows.merge(metrics[[*_ON, *COLUMNS]], how="left", on=_ON, validate="many_to_one")


def with_family(rows: pd.DataFrame, metrics: pd.DataFrame) -> pd.DataFrame:
    """Set ``family`` to that of the network in ``metrics``; it stays where the network is not there."""
    families = metrics.drop_duplicates("network").set_index("network")["family"]
    known = rows["network"].isin(families.index)
    return rows.assign(family=rows["network"].map(families).where(known, rows["family"]))
