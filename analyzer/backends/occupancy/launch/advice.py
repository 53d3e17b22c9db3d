"""What the launch configurations of a run say for certain could be better."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from .kernel_table import busiest

_SHARE = 0.25
"""Of the GPU time; what concerns less is not worth a sentence."""


def advice(rows: pd.DataFrame) -> Iterator[str]:
    """Sentences, none where nothing is sure; ``rows`` as ``with_occupancy`` gives them.

    Grids that are too small for the GPU: more work per step makes more blocks. Collectives (NCCL), which have few blocks on
    purpose, do not count. Registers, shared memory and block size are chosen by a kernel's author, often against occupancy, so
    there is no advice on them.
    """
    own = rows[rows["grid"].notna() & ~rows["kernel"].str.startswith("nccl")]
    seconds = own["duration"] * own["count"]
    small = own["limiter"] == "grid"
    share = seconds[small].sum() / seconds.sum() if seconds.sum() > 0 else 0.0
    if share < _SHARE:
        return
    worst = busiest(own[small]).iloc[0]
    blocks, sms, resident = int(worst["blocks"]), int(worst["sm_count"]), int(worst["resident_blocks"])
    idle = f", which leaves {sms - blocks} idle," if blocks < sms else ","
    yield (
        f"grids are too small for {100 * share:.0f} % of the GPU time: the busiest such kernel launches {blocks} blocks for"
        f" {sms} SMs{idle} where {sms * resident} fit at once; a larger batch makes more blocks"
    )
