"""Foreign telemetry, recognised by its columns and turned into a trace's: one file per format, one line here.

An adapter is a module with two functions: ``recognises(head)``, whether the first lines of a text are in its format, and
``read(text, name)``, the frame (column ``time`` in unix seconds, metrics in base units under the names of the metric catalogue,
others under their own) and the trace's metadata, as far as the format holds any.
"""

from __future__ import annotations

from typing import Any, Protocol

import pandas as pd

from . import dcgmi_dmon, mlperf_power, nvidia_smi, record_epochs


class Adapter(Protocol):
    """One foreign format."""

    def recognises(self, head: str) -> bool:
        """Whether a text that begins so is in this format."""

    def read(self, text: str, name: str) -> tuple[pd.DataFrame, dict[str, Any]]:
        """Frame and metadata of the whole text; raises InputError, in a sentence that calls the source ``name``."""


ADAPTERS: tuple[Adapter, ...] = (record_epochs, nvidia_smi, dcgmi_dmon, mlperf_power)

_HEAD = 4096


def read_foreign(text: str, name: str) -> tuple[pd.DataFrame, dict[str, Any]] | None:
    """Frame and metadata of a text in a foreign format; None if no adapter recognises it."""
    head = text[:_HEAD]
    for adapter in ADAPTERS:
        if adapter.recognises(head):
            return adapter.read(text, name)
    return None
