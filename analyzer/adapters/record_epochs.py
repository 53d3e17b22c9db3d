"""A session of the measurement script ``record_epochs.py`` as one trace."""

from __future__ import annotations

from epochcast.analyzer.adapters.device_table import DeviceTable
from epochcast.analyzer.csv_text import parse_csv
from epochcast.analyzer.gpu_scripts.record_epochs import convert, missed, recognises

__all__ = ["read", "recognises"]


def read(text: str, name: str) -> list[DeviceTable]:
    """The whole session as one trace."""
    table = parse_csv(text, name)
    return [DeviceTable(convert(table, name), {"source": "record_epochs", "missed_ticks": missed(table)})]
