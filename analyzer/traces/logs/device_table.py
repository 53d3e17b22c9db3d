"""What an adapter makes of a log: one table for each GPU in it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd


@dataclass(frozen=True)
class DeviceTable:
    """Telemetry of one GPU.

    Attributes:
        frame: column ``time`` [unix s], metrics in base units under the names of the metric catalogue, others under their own.
        metadata: of the trace, as far as the log holds any; keys as in `Trace`.
        label: which GPU of the log (``GPU 3``), None where the log does not number them.
        notes: sentences on how the log was understood, where it does not say so itself.
    """

    frame: pd.DataFrame
    metadata: dict[str, Any] = field(default_factory=dict)
    label: str | None = None
    notes: tuple[str, ...] = ()
