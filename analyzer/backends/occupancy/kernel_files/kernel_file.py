"""What a reader of a profile gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from ..launch.gpu_limits import GpuLimits


@dataclass(frozen=True)
class KernelFile:
    """A profile's kernels.

    Attributes:
        format: what kind of file it is, for messages.
        table: the launches (``launch/kernel_table.py``).
        limits: what the file itself tells of its GPUs, by the name in column ``gpu``.
        passed_over: records that are no usable kernel launches, by kind.
    """

    format: str
    table: pd.DataFrame
    limits: Mapping[str, GpuLimits] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)
