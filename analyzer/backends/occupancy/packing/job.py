"""One job that waits for a GPU, and the table of them that a user hands in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from .table_file import Column, read_table


@dataclass(frozen=True)
class Job:
    """A job of one GPU.

    Attributes:
        name: what it is called.
        arrival: seconds at which it asks for a GPU.
        duration: seconds that it takes alone on a GPU.
        occupancy: its true mean GPU occupancy, 0..1; it drives the slowdown.
        predicted_occupancy: the occupancy that the scheduler is told, 0..1.
        nvml_utilisation: share of the time alone in which a kernel runs, 0..1.
        memory: bytes that it holds on the GPU from start to end.
        predicted_memory: bytes that the scheduler is told.
        kind: what runs, the key of measured tables; empty where there is none.
    """

    name: str
    arrival: float
    duration: float
    occupancy: float
    predicted_occupancy: float
    nvml_utilisation: float
    memory: float
    predicted_memory: float
    kind: str = ""

    @cached_property
    def as_predicted(self) -> Job:
        """The job as the scheduler sees it: predictions in the place of what is true."""
        return Job(
            self.name,
            self.arrival,
            self.duration,
            self.predicted_occupancy,
            self.predicted_occupancy,
            self.nvml_utilisation,
            self.predicted_memory,
            self.predicted_memory,
            self.kind,
        )


_SHORTEST = 1e-6  # seconds; nothing runs shorter, and results divide by it
_LONGEST = 1e12  # seconds; sums of more lose whole jobs to rounding

_COLUMNS = (
    Column("arrival_s", least=0.0),
    Column("duration_s", least=_SHORTEST, most=_LONGEST),
    Column("occupancy", least=0.0, most=1.0),
    Column("nvml_utilisation", least=0.0, most=1.0),
    Column("memory_bytes", least=0.0),
    Column("predicted_occupancy", least=0.0, most=1.0, instead="occupancy"),
    Column("predicted_memory_bytes", least=0.0, instead="memory_bytes"),
)


def read_jobs(path: str | Path) -> list[Job]:
    """Jobs of a CSV table, in the order of its rows.

    Arrivals count from the first one: a clock since 1970 would leave few digits for what happens after it.

    Columns: ``name``, ``arrival_s``, ``duration_s`` (alone), ``occupancy``, ``nvml_utilisation`` (0..1), ``memory_bytes``; may
    be left out or empty: ``predicted_occupancy``, ``predicted_memory_bytes`` (the true value), ``kind``.

    Raises:
        InputError: the file is no such table, holds no row, or a value cannot be.
    """
    table = read_table(path, _COLUMNS, names=("name",), also=("kind",))
    table["arrival_s"] -= table["arrival_s"].min()
    columns = ["name", *(column.name for column in _COLUMNS), "kind"]
    return [
        Job(
            name,
            arrival,
            duration,
            occupancy,
            predicted_occupancy=predicted,
            nvml_utilisation=nvml,
            memory=memory,
            predicted_memory=predicted_memory,
            kind=kind,
        )
        for name, arrival, duration, occupancy, nvml, memory, predicted, predicted_memory, kind in zip(
            *(np.asarray(table[column]).tolist() for column in columns), strict=True
        )
    ]
