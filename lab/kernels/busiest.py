"""The busiest kernels of a kernel table, and their names in short."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.modelled import CONFIGURATION

LAUNCH = ("kernel", *CONFIGURATION)
"""What makes launches alike."""


def busiest(rows: pd.DataFrame, alike: tuple[str, ...] = ("kernel",)) -> pd.DataFrame:
    """Launches grouped by the columns ``alike``, those that took the most GPU time first.

    Columns: ``alike``, ``gpu``, ``launches``, ``seconds``, ``share`` (of all seconds; NaN without durations), the means of
    ``grid``, ``active``, ``limit`` and ``achieved`` over launches, the ``limiter`` for most of the time, and of the longest
    row ``blocks``, ``resident_blocks`` and ``sm_count``.
    """
    keys = [*alike, "gpu"]
    group = rows.groupby(keys, sort=False, dropna=False).ngroup()
    seconds = (rows["duration"] * rows["count"]).fillna(0.0)
    blocks = rows["grid_x"] * rows["grid_y"] * rows["grid_z"]
    longest = rows.assign(group=group, seconds=seconds, blocks=blocks).sort_values("seconds", ascending=False, kind="stable")
    table = longest.drop_duplicates("group").set_index("group")[[*keys, "blocks", "resident_blocks", "sm_count"]]
    table["launches"] = rows["count"].groupby(group).sum()
    table["seconds"] = seconds.groupby(group).sum()
    total = seconds.sum()
    table["share"] = table["seconds"] / total if total > 0 else np.nan
    weight = (seconds if total > 0 else rows["count"]).groupby([group, rows["limiter"]]).sum()
    table["limiter"] = weight.sort_values().reset_index(level=1)["limiter"].groupby(level=0).last()
    for name in ("grid", "active", "limit", "achieved"):
        counted = rows["count"].where(rows[name].notna()).groupby(group).sum()
        table[name] = (rows[name] * rows["count"]).groupby(group).sum() / counted.where(counted > 0)
    return table.sort_values(["seconds", "launches"], ascending=False, kind="stable").reset_index(drop=True)


_COMMON_PARTS = re.compile(r"^void |at::native::|\(anonymous namespace\)::")


def short_name(name: str, length: int) -> str:
    """The kernel's name without what most of PyTorch's have in it, and its middle left out beyond ``length`` characters.

    Both ends stay: the first word says which kernel it is, and the last ones which template of it.
    """
    plain = _COMMON_PARTS.sub("", name)
    if len(plain) <= length:
        return plain
    tail = (length - 1) // 2
    return f"{plain[: length - 1 - tail]}…{plain[-tail:]}"
