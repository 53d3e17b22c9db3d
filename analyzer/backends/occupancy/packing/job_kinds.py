"""What streams of jobs are drawn from: networks with their sizes, each with its occupancy, NVML utilisation and memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .....regressor import Catalog, Gpu
from ....errors import InputError
from .. import label_files
from ..labelled_samples import of_one_kind
from ..points import SIZES
from .table_file import Column, read_table


@dataclass(frozen=True)
class JobKind:
    """One network with its input sizes on one GPU.

    Attributes:
        key: what it is called.
        occupancy: mean of its kernels' occupancies of the GPU, 0..1 (section III-A of the paper).
        nvml_utilisation: share of the time in which a kernel runs, 0..1.
        memory: bytes.
    """

    key: str
    occupancy: float
    nvml_utilisation: float
    memory: float


@dataclass(frozen=True)
class JobKinds:
    """The kinds of one table.

    Attributes:
        kinds: at least one.
        labels: where the occupancies come from, one of :data:`..points.LABELS`, or ``given``.
        gpu: the GPU that they are of, as the catalogue calls it; empty where the table does not tell.
        left_out: rows without NVML utilisation or memory.
    """

    kinds: tuple[JobKind, ...]
    labels: str
    gpu: str
    left_out: int


_GIVEN = (
    Column("occupancy", least=0.0, most=1.0),
    Column("nvml_utilisation", least=0.0, most=1.0),
    Column("memory_bytes", least=0.0),
)


def job_kinds(
    path: Path, catalog: Catalog, gpu: Gpu | None = None, occupancy: str = "mean", labels: str | None = None
) -> JobKinds:
    """Kinds of any table of occupancies (``label_files``: of our own, or of ``occupancy_bench.py``), or of a plain one.

    Of a table of occupancies the column ``occupancy`` (``mean``: the paper's label, or ``time_mean``: weighted by the kernels'
    duration) counts, and rows on ``gpu`` with ``labels``, if they are given. A plain table has the columns ``key``,
    ``occupancy``, ``nvml_utilisation`` (0..1) and ``memory_bytes``.

    Raises:
        InputError: the file is none of these, holds nothing usable or nothing on this GPU or with these labels, or is of
            several GPUs or kinds of labels.
    """
    if str(path) == "-":  # the table is looked at before its reader is known, and may have files beside it
        raise InputError("configurations are not read from standard input; write them to a file and name that")
    columns = read_table(path, (), names=()).columns
    if {"key", *(column.name for column in _GIVEN)} <= set(columns):
        if labels is not None or occupancy != "mean":
            option = f"--labels {labels}" if labels is not None else f"--occupancy {occupancy}"
            raise InputError(f"{str(path)!r} gives one occupancy of each job and tells no kind of it; leave out {option}")
        table = read_table(path, _GIVEN, names=("key",))
        return JobKinds(_kinds(table, "occupancy"), "given", "", 0)
    told = "gpu" in columns or (path.parent / "meta.json").is_file()  # which GPU it is of, so that another is noticed
    points = label_files.read_any(path, catalog, None if told else gpu)
    if gpu is not None:
        points, everywhere = points[points["gpu"] == gpu.name], points
        if points.empty:
            on = ", ".join(sorted(everywhere["gpu"].unique()))
            raise InputError(f"{str(path)!r} holds nothing on {gpu.name!r} but on {on}; name that, or give another table")
    found = sorted(points["gpu"].unique())
    if len(found) > 1:
        raise InputError(f"{str(path)!r} is of {', '.join(found)}; say which by --gpu")
    points = of_one_kind(points, labels)
    usable = points[points[["nvml_utilisation", "memory_bytes"]].notna().all(axis=1)]
    if usable.empty:
        raise InputError(f"{str(path)!r} holds no row with nvml_utilisation and memory_bytes; packing needs both")
    sizes = usable[list(SIZES)].astype(str).agg("/".join, axis=1)
    named = usable.assign(key=usable["network"] + "/" + sizes + "/" + usable["precision"])
    return JobKinds(_kinds(named, occupancy), str(usable["labels"].iloc[0]), found[0], len(points) - len(usable))


def _kinds(table: pd.DataFrame, occupancy: str) -> tuple[JobKind, ...]:
    rows = table[["key", occupancy, "nvml_utilisation", "memory_bytes"]]
    return tuple(JobKind(*row) for row in rows.itertuples(index=False, name=None))
