"""Other tools' logs: a file for each kind whose text is no table, and one for what is special in nvidia-smi's."""

from __future__ import annotations

from typing import Any

from epochcast.analyzer.traces.csv_text import read_table
from epochcast.analyzer.traces.logs import dmon, exported_series, nvidia_smi
from epochcast.analyzer.traces.table import DeviceTable, tables_of

#: Whether a text that begins so is of a kind, and what reads it.
READERS = (
    (dmon.recognises, dmon.read),
    (exported_series.is_of_grafana, exported_series.read_grafana),
    (exported_series.is_of_prometheus, exported_series.read_prometheus),
)

_HEAD = 4096


def tables_of_text(text: str, name: str, metadata: dict[str, Any] | None = None) -> list[DeviceTable]:
    """The table of each GPU in a log or a CSV text; ``metadata``: what our own says in its first line.

    Raises InputError, in a sentence that calls the source ``name``, for what cannot be read.
    """
    head = text[:_HEAD]
    if metadata is None:
        nvidia_smi.refuse_printed(head, name)
        for recognises, read in READERS:
            if recognises(head):
                return read(text, name)
    text, notes, of_smi = nvidia_smi.with_header(text, name)
    table, said = read_table(text, name, keep_last=metadata is None and not of_smi)
    return tables_of(table, name, metadata, [*notes, *said])
