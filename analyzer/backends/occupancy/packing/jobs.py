"""Jobs of one GPU, from tables and as seeded streams, as section VI of the paper has them.

A stream is a mix of the paper's networks, "scaled from prior work" [11], [12]; the paper gives neither how many jobs nor when
they arrive nor how long they take. Assumed here: durations are log-normal, the usual shape of the traces that Gandiva [11] and
Tiresias [12] scale down; networks are drawn evenly from the table, without regard to their duration; all jobs arrive at once,
or as a Poisson process.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from epochcast.analyzer.backends.measured_table import MeasuredTable
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog, Gpu

JOBS = 40
"""Of a stream."""

MEAN_DURATION = 12.0
"""Seconds alone: 40 such jobs keep four GPUs busy for about as long as the paper's 133 s."""

SPREAD = 1.0
"""Standard deviation of the logarithm of the duration."""


@dataclass(frozen=True)
class PackedJob:
    """A job of one GPU, or what jobs of a stream are drawn from, which neither arrives nor lasts.

    Attributes:
        name: what it is called.
        arrival: seconds at which it asks for a GPU.
        duration: seconds that it takes alone on a GPU.
        occupancy: its true mean GPU occupancy, 0..1; it drives the slowdown.
        predicted_occupancy: the occupancy that the scheduler knows, 0..1.
        nvml_utilisation: share of the time alone in which a kernel runs, 0..1.
        memory: bytes that it holds on the GPU from start to end.
        predicted_memory: bytes that the scheduler knows.
        kind: name of what it was drawn from, if anything.
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


def job_kind(name: str, occupancy: float, nvml_utilisation: float, memory: float) -> PackedJob:
    """What jobs are drawn from: ratios 0..1 and bytes, known rightly to the scheduler."""
    return PackedJob(name, 0.0, 0.0, occupancy, occupancy, nvml_utilisation, memory, memory)


def draw_streams(
    kinds: Sequence[PackedJob], runs: int, seed: int, jobs: int = JOBS, arrival_rate: float | None = None
) -> list[list[PackedJob]]:
    """``runs`` streams of ``jobs`` jobs; each depends on the seed and its own number alone.

    ``arrival_rate`` is in jobs per second of a Poisson process; None: all arrive at once.
    """
    streams = []
    for run in range(runs):
        rng = np.random.default_rng([seed, run, 0])
        drawn = [kinds[index] for index in rng.integers(len(kinds), size=jobs)]
        median = MEAN_DURATION / math.exp(SPREAD**2 / 2)
        durations = median * np.exp(SPREAD * rng.standard_normal(jobs))
        gaps = np.zeros(jobs) if arrival_rate is None else rng.exponential(1 / arrival_rate, jobs)
        times = zip(drawn, (np.cumsum(gaps) - gaps[0]).tolist(), durations.tolist(), strict=True)
        streams.append(
            [
                replace(kind, name=f"{number} {kind.name}", arrival=arrival, duration=duration, kind=kind.name)
                for number, (kind, arrival, duration) in enumerate(times, start=1)
            ]
        )
    return streams


GPU = "A100 SXM4 40GB"
"""That the public tables of measured trainings (GPUMemNet) are of, by their README; they have no column for it."""

SUCCESSFUL = "SUCCESSFUL"
"""Status of a training that ran to its end, in the words of the public tables."""

_TEXTS = ("name", "network", "batch", "gpu", "status")
_SHORTEST = 1e-6  # seconds; nothing runs shorter, and results divide by it
_LONGEST = 1e12  # seconds; sums of more lose whole jobs to rounding


def read_jobs(path: Path) -> list[PackedJob]:
    """Jobs of a CSV table, in the order of its rows.

    Arrivals count from the first one: a clock since 1970 would leave few digits for what happens after it.

    Columns: ``name``, ``arrival_s``, ``duration_s`` (alone), ``occupancy``, ``nvml_utilisation`` (0..1), ``memory_bytes``;
    ``predicted_occupancy`` and ``predicted_memory_bytes`` may be left out or empty (the true value).

    Raises:
        InputError: the file is no such table, holds no row, or a value cannot be.
    """
    table = MeasuredTable(path, _TEXTS, "`epochcast simulate-packing --help` names all")
    arrival, memory = table.numbers("arrival_s"), table.numbers("memory_bytes")
    occupancy = table.numbers("occupancy", most=1.0)
    columns = (
        table.texts("name"),
        arrival - arrival.min(),
        table.numbers("duration_s", _SHORTEST, _LONGEST),
        occupancy,
        table.numbers("predicted_occupancy", most=1.0, instead=occupancy),
        table.numbers("nvml_utilisation", most=1.0),
        memory,
        table.numbers("predicted_memory_bytes", instead=memory),
    )
    return [PackedJob(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def read_kinds(path: Path, catalog: Catalog, gpu: Gpu | None = None) -> tuple[list[PackedJob], Gpu, int]:
    """What streams are drawn from, of a table of measured trainings; their GPU; and how many trainings are left out.

    Those count that ran to their end and have ``sm_occupancy``, ``gpu_utilization_percent`` and ``peak_memory_mib``. A table
    with a column ``gpu`` is read for ``gpu``, if that is given; one without was measured on ``gpu``, by default that of the
    public tables.

    Raises:
        InputError: the file is no such table, holds nothing usable or nothing on this GPU, or is of several.
    """
    table = MeasuredTable(path, _TEXTS, "`epochcast simulate-packing --help` names all")
    if "gpu" in table.rows:
        names = table.texts("gpu").map(lambda name: catalog.resolve(name).name)
        known = ", ".join(sorted(names.unique()))
        if gpu is None and names.nunique() > 1:
            raise InputError(f"{table.name!r} is of {known}; say which by --gpu")
        gpu = gpu or catalog[names.iloc[0]]
        table.rows = table.rows[names == gpu.name]
        if table.rows.empty:
            raise InputError(f"{table.name!r} holds nothing on {gpu.name!r} but on {known}; name one of those")
    # a figure that was not read is -1 or empty
    occupancy = table.numbers("sm_occupancy", -1.0, 1.0, instead=-1.0)
    utilisation = table.numbers("gpu_utilization_percent", -1.0, 100.0, instead=-1.0)
    memory = table.numbers("peak_memory_mib", -1.0, instead=-1.0)
    usable = (occupancy >= 0) & (utilisation >= 0) & (memory > 0)
    if "status" in table.rows:
        usable &= table.rows["status"] == SUCCESSFUL
    if not usable.any():
        raise InputError(
            f"no training of {table.name!r} ran to its end with an SM occupancy, NVML utilisation and memory; measure some"
        )
    key = table.texts("network") + "/" + table.texts("batch") if "network" in table.rows else table.texts("name")
    columns = [column[usable].tolist() for column in (key, occupancy, utilisation / 100, memory * 2**20)]
    kinds = [job_kind(*row) for row in zip(*columns, strict=True)]
    return kinds, gpu or catalog.resolve(GPU), int((~usable).sum())
