"""What a reader of a label table gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd


@dataclass(frozen=True)
class Reading:
    """What was read.

    Attributes:
        points: usable rows (``points.py``), index from 0.
        left_out: how many rows were not usable, by the reason.
        notes: what else the user should know, a sentence each.
    """

    points: pd.DataFrame
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
