"""Measured points: one row per device, precision, network or block, image size, batch and number of devices.

A table of points is a DataFrame with the columns :data:`KEYS`, the measured seconds :data:`TIMES` (NaN where a phase was not
measured) and the metrics of the network at batch 1 (:data:`.metrics.COLUMNS`). `python -m lab.measure convmeter` writes it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.measured_table import MeasuredTable

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
    table = MeasuredTable(Path(path), _NAMES, f"a table of points has {', '.join(KEYS)}, seconds and metrics")
    points = pd.DataFrame({name: table.texts(name) for name in ("device", "precision", "network")})
    points["block"], points["family"] = table.column("block").fillna(""), table.column("family")
    counts = {name: table.numbers(name, 1) for name in _COUNTS} | {name: table.numbers(name) for name in COLUMNS}
    times = {name: table.numbers(name, _SHORTEST, instead=np.nan) if name in table.rows else np.nan for name in TIMES}
    return points.assign(**counts, **times)[[*KEYS, *TIMES, *COLUMNS]]
