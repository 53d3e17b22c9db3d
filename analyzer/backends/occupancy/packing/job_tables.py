"""Tables of jobs, and of measured trainings that streams of jobs are drawn from, or one sentence about what is wrong."""

from __future__ import annotations

from pathlib import Path

from epochcast.analyzer.backends.measured_table import MeasuredTable
from epochcast.analyzer.backends.occupancy.packing.jobs import PackedJob, job_kind
from epochcast.analyzer.errors import InputError
from epochcast.regressor import Catalog, Gpu

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
