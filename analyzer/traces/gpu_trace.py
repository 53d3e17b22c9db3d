"""The trace: telemetry of one GPU as one table, and what is known of it.

A trace has a column ``time`` (unix seconds, strictly increasing) and one numeric column per metric, in base units under the
names of the metric catalogue; other numeric columns are usable under their own names. An empty cell (NaN) means "no reading at
this tick".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import FEW
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.analyzer.words import count, one_name

SCHEMA = "epochcast.trace/v1"
METADATA = {"gpu": str, "uuid": str, "source": str, "simulated": bool, "static": dict, "missed_ticks": int, "job": dict}
"""Key of the metadata -> its kind."""


@dataclass(frozen=True)
class Trace:
    """Telemetry of one GPU (or, with source ``host``, of one machine's CPU).

    ``frame`` has the float column ``time`` [unix s, strictly increasing] and one float column per metric [base units,
    NaN = no reading]. ``gpu`` is the device's name as its source reports it, ``uuid`` its identity, ``static`` its static
    attributes; ``source`` what read it (``nvml``, ``host``, ``replay``, …); ``simulated`` is true if no hardware was read.
    ``job`` has the network that the job's ``command`` or ``configuration`` names, and its ``batch``, as far as they are known.
    ``label`` says which GPU of its file it is (``GPU 3``), where that has several; ``notes`` are sentences on how the file was
    understood, where it does not say so itself; ``epochs`` those that are known without looking at metrics. None of the
    three is written to files.
    """

    frame: pd.DataFrame
    gpu: str | None = None
    uuid: str | None = None
    source: str | None = None
    simulated: bool = False
    static: Mapping[str, Any] = field(default_factory=dict)
    missed_ticks: int = 0
    job: Mapping[str, Any] = field(default_factory=dict)
    label: str | None = None
    notes: tuple[str, ...] = ()
    epochs: KnownEpochs | None = None

    @property
    def title(self) -> str:
        """What people call it: its label, name and UUID, as far as they are known."""
        known = ", ".join(filter(None, (self.gpu, self.uuid)))
        return f"{self.label} ({known})" if self.label and known else self.label or known or "GPU"

    @property
    def time(self) -> NDArray[np.float64]:
        """Sample times, shape (n,) [unix s]."""
        return self.frame["time"].to_numpy(dtype=np.float64)

    @property
    def metric_names(self) -> tuple[str, ...]:
        """Names of the metric columns, in file order."""
        return tuple(name for name in self.frame.columns if name != "time")

    def metrics(self, names: Sequence[str] = ()) -> dict[str, NDArray[np.float64]]:
        """Metric columns as arrays of shape (n,); all of them if ``names`` is empty. Unknown names raise InputError."""
        for name in names:
            if name not in self.metric_names:
                raise InputError(f"the trace has no metric {name!r}; it has {', '.join(self.metric_names)}")
        return {name: self.frame[name].to_numpy(dtype=np.float64) for name in (names or self.metric_names)}

    def metadata(self) -> dict[str, Any]:
        """Everything but the samples, as the JSON object that both file formats carry."""
        values = {key: getattr(self, key) for key in METADATA}
        return {"schema": SCHEMA} | {key: dict(value) if METADATA[key] is dict else value for key, value in values.items()}


def make_trace(
    frame: pd.DataFrame,
    metadata: Mapping[str, Any],
    name: str,
    label: str | None = None,
    notes: Sequence[str] = (),
    epochs: KnownEpochs | None = None,
) -> Trace:
    """The trace of a table of numbers, ``time`` finite among them, and of any of the metadata's keys.

    A few rows with the time of the row before are left out. Raises InputError, calling the table ``name``, for an empty one and
    for times that do not ascend.
    """
    if len(frame) == 0:
        raise InputError(f"{name!r} has no rows")
    time = frame["time"].to_numpy()
    steps = np.diff(time)
    repeated = np.concatenate([[False], steps == 0])
    if 0 < repeated.sum() <= FEW * len(time):
        notes = (*notes, f"left out: {count(int(repeated.sum()), 'row')} with the time of the row before")
        frame = frame[~repeated].reset_index(drop=True)
    elif repeated.any() or (steps < 0).any():
        row = int(np.flatnonzero(steps <= 0)[0]) + 1
        what = "repeats" if steps[row - 1] == 0 else "goes back from"
        raise InputError(
            f"time {what} {time[row - 1]:.3f} in data row {row + 1} of {name!r}; if the rows are of several GPUs, add a column "
            "`index` with the GPU's number or write one file per GPU, else keep one row per time, the earliest first"
        )
    known = {key: metadata[key] for key in METADATA if metadata.get(key) is not None}
    return Trace(frame, **known | {"gpu": one_name(known.get("gpu"))}, label=label, notes=tuple(notes), epochs=epochs)
