"""Foreign telemetry, recognised by its first lines and turned into a trace's: one file per format, one line here.

An adapter is a module with two functions: ``recognises(head)``, whether the first lines of a text are in its format, and
``read(text, name)``, a table for each GPU in the text.
"""

from __future__ import annotations

from typing import Protocol

from epochcast.analyzer.traces.logs import dcgmi_dmon, grafana_csv, nvidia_smi, prometheus_json
from epochcast.analyzer.traces.logs.device_table import DeviceTable


class Adapter(Protocol):
    """One foreign format."""

    def recognises(self, head: str) -> bool:
        """Whether a text that begins so is in this format."""

    def read(self, text: str, name: str) -> list[DeviceTable]:
        """At least one table, in the order of the GPUs; raises InputError, in a sentence that calls the source ``name``."""


ADAPTERS: tuple[Adapter, ...] = (nvidia_smi, dcgmi_dmon, grafana_csv, prometheus_json)

_HEAD = 4096


def read_foreign(text: str, name: str) -> list[DeviceTable] | None:
    """The GPUs in a text of a foreign format; None if no adapter recognises it."""
    head = text[:_HEAD]
    for adapter in ADAPTERS:
        if adapter.recognises(head):
            return adapter.read(text, name)
    return None
