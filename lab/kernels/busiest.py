"""The busiest kernels of a kernel table, and what its launches say for certain could be better."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.occupancy.launch.calculator import CONFIGURATION

_LEAST_ADVISED_SHARE = 0.25
"""Of the GPU time; what concerns less is not worth a sentence."""


def count_skipped(rows: pd.DataFrame) -> dict[str, int]:
    """Launches without occupancy, by the reason; ``rows`` as :func:`with_occupancy` gives them."""
    without = rows[rows["skipped"] != ""]
    return {str(reason): int(count) for reason, count in without.groupby("skipped")["count"].sum().items()}


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


def advice(rows: pd.DataFrame) -> Iterator[str]:
    """What the launches say for certain could be better, a sentence each; none where nothing is sure.

    Grids that are too small for the GPU: more work per step makes more blocks. Collectives (NCCL), which have few blocks on
    purpose, do not count. Registers, shared memory and block size are chosen by a kernel's author, often against occupancy, so
    there is no advice on them.
    """
    own = rows[rows["grid"].notna() & ~rows["kernel"].str.startswith("nccl")]
    seconds = own["duration"] * own["count"]
    small = own["limiter"] == "grid"
    share = seconds[small].sum() / seconds.sum() if seconds.sum() > 0 else 0.0
    if share < _LEAST_ADVISED_SHARE:
        return
    worst = busiest(own[small]).iloc[0]
    blocks, sms, resident = int(worst["blocks"]), int(worst["sm_count"]), int(worst["resident_blocks"])
    idle = f", which leaves {sms - blocks} idle," if blocks < sms else ","
    yield (
        f"grids are too small for {100 * share:.0f} % of the GPU time: the busiest such kernel launches {blocks} blocks for"
        f" {sms} SMs{idle} where {sms * resident} fit at once; a larger batch makes more blocks"
    )


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
