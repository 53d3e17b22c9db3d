"""Measured points: one row per device, precision, network or block, image size, batch and number of devices.

A table of points is a DataFrame with the columns :data:`KEYS`, the measured seconds :data:`TIMES` (NaN where a phase was not
measured) and the metrics of the network at batch 1 (:data:`.metrics.COLUMNS`). `python -m lab.measure convmeter` writes it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv, read_text

KEYS = ("device", "precision", "network", "block", "family", "image_size", "batch", "devices", "nodes")
"""``device``: name of the GPU or processor. ``block``: path of a submodule, empty for a whole network. ``family``: networks of
one design, which evaluation leaves out together. ``batch``: images per device and step. ``devices``: in all nodes together."""

CHANNELS_LAST = "-nhwc"
"""End of the name of a precision at which tensors are laid out channels last: layouts take different times."""

PHASES = ("inference", "forward", "backward", "update", "step")
"""``forward`` keeps what the backward pass needs, ``inference`` does not. ``update`` is the optimiser's, on several devices
with the exchange of gradients if it can be separated; ``step`` is all of forward, backward and update."""

TIMES = tuple(f"{phase}_seconds" for phase in PHASES)

_NAMES = ("device", "precision", "network", "block", "family")
_SHORTEST = 1e-9  # seconds; nothing runs faster, and fits divide by it
_COUNTS = ("image_size", "batch", "devices", "nodes")


def read_points(path: str | Path) -> pd.DataFrame:
    """Read a table of measured points (CSV).

    Raises:
        InputError: the file is no such table, holds no row, or a cell is empty or no number that can be.
    """
    table = parse_csv(read_text(path), str(path), as_text=_NAMES)
    if missing := [name for name in (*KEYS, *COLUMNS) if name not in table]:
        raise InputError(f"{str(path)!r} lacks the column {missing[0]!r}; give a table of measured points (docs/convmeter.md)")
    if table.empty:
        raise InputError(f"{str(path)!r} has no rows below its header; give a table of measured networks")
    for name in ("device", "precision", "network"):
        if (empty := table[name].isna()).any():
            raise InputError(
                f"column {name!r} of {str(path)!r} is empty in row {int(empty.to_numpy().argmax()) + 1}; fill it in"
            )
    table = table.assign(block=table["block"].fillna(""))
    for name in (*_COUNTS, *TIMES, *COLUMNS):
        column = table[name] if name in table else pd.Series(np.nan, table.index)
        values = pd.to_numeric(column, errors="coerce").astype(float)
        least = 1 if name in _COUNTS else 0
        bad = column.notna() & ~np.isfinite(values) | (values < least)
        if name in TIMES:
            bad |= (values > 0) & (values < _SHORTEST)
        else:
            bad |= values.isna()
        if bad.any():
            row = int(bad.to_numpy().argmax())
            seen = column.tolist()[row]  # of Python, not of numpy
            holds = "is empty" if column.isna().iloc[row] else f"holds {seen!r}"
            allowed = f"{_SHORTEST:g} seconds or more" if name in TIMES else f"a number of {least} or more"
            raise InputError(f"column {name!r} of {str(path)!r} {holds} in row {row + 1}; give {allowed} or remove it")
        table[name] = values
    return table[[*KEYS, *TIMES, *COLUMNS]]
