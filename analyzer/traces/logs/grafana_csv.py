"""Grafana's *Inspect > Data > Download CSV* of a panel: a column ``Time``, and one for each series of "Series joined by time".

A series is called by its metric and labels (``{__name__="DCGM_FI_DEV_GPU_UTIL", gpu="0"}`` or ``up{job="node"}``), or by its
legend. A legend with ``GPU 3`` in it is of that GPU, and the rest of it names the metric. Times are unix milliseconds, or in
the browser's zone where *Formatted data* was on; the values must not be formatted, since their units would change from cell
to cell.
"""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv
from epochcast.analyzer.traces.logs.device_table import DeviceTable
from epochcast.analyzer.traces.logs.labelled_series import tables_of_series
from epochcast.analyzer.traces.timestamps import unix_seconds

_EXCEL = re.compile(r"^sep=.\r?\n")  # the first line of a download for Excel
_HEADER = re.compile(r'^"?Time"?\s*,')
_NAME = re.compile(r"\s*([A-Za-z_:][\w:]*)?\s*\{(.*)\}\s*")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')
_LEGEND = re.compile(r"[\s,:;(/|-]*\bGPU[\s:#_-]*(\d{1,3})\b[\s,:;)/|-]*", re.IGNORECASE)


def recognises(head: str) -> bool:
    """By its first column, ``Time``."""
    return _HEADER.match(_EXCEL.sub("", head)) is not None


def read(text: str, name: str) -> list[DeviceTable]:
    """A table of each GPU. Raises InputError for cells that are no numbers, and for two series that would be one column."""
    from epochcast.analyzer.traces.series import Series

    table = parse_csv(_EXCEL.sub("", text), name)
    if "Time" not in table:  # a quote that is not closed
        raise InputError(f"{name!r} has a broken header line; download it again")
    times, notes = unix_seconds(table["Time"], "Time", name)
    if times.isna().any():
        row = int(np.flatnonzero(times.isna())[0])
        raise InputError(f"{name!r} has no time in data row {row + 1}; download it again, or remove the row")
    series = []
    for title in table.columns.drop("Time"):
        values = pd.to_numeric(table[title], errors="coerce")
        if (bad := values.isna() & table[title].notna() & (table[title] != "null")).any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"{title[:80]!r} of {name!r} holds {str(table[title].iloc[row])[:60]!r} in data row {row + 1}; "
                "download it again with 'Formatted data' switched off (Inspect > Data > Data options)"
            )
        numbers = values.to_numpy(dtype=np.float64)
        there = np.isfinite(numbers)
        series.append(Series(_labels(str(title)), times.to_numpy(dtype=np.float64)[there], numbers[there]))
    if any(_LEGEND.search(str(title)) and not _NAME.fullmatch(str(title)) for title in table.columns):
        notes = (*notes, "its series are assigned to GPUs by their legends")
    return tables_of_series(series, "grafana", name, notes)


def _labels(title: str) -> dict[str, str]:
    """The labels that a series' title says, ``__name__`` among them."""
    if named := _NAME.fullmatch(title):
        labels = {label: re.sub(r"\\(.)", r"\1", value) for label, value in _LABEL.findall(named[2])}
        return labels | ({"__name__": named[1]} if named[1] else {})
    if legend := _LEGEND.search(title):
        rest = " ".join(filter(None, (title[: legend.start()].strip(), title[legend.end() :].strip())))
        return {"gpu": legend[1]} | ({"__name__": rest} if rest else {})
    return {"__name__": title}
