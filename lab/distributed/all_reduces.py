"""Measured all-reduces within a node: tables to interpolate in, and the fits of them that are shipped."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls

from epochcast.analyzer.backends.distributed.communication.cluster import AllReduceFit
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv, read_text


@dataclass(frozen=True, eq=False)
class AllReduceTable:
    """Measured times by increasing size: interpolated in log-log; above the largest size, its bandwidth.

    Below the smallest size the line through it and the next that is twice as large, as latency and bandwidth have it.
    """

    nbytes: NDArray[np.float64]
    measured: NDArray[np.float64]

    def seconds(self, nbytes: ArrayLike) -> NDArray[np.float64]:
        """Seconds of all-reduces of ``nbytes``."""
        wanted = np.asarray(nbytes, dtype=np.float64)
        within = np.exp(np.interp(np.log(np.maximum(wanted, 1.0)), np.log(self.nbytes), np.log(self.measured)))
        twice = min(int(np.searchsorted(self.nbytes, 2 * self.nbytes[0])), len(self.nbytes) - 1)
        per_byte = (self.measured[twice] - self.measured[0]) / max(self.nbytes[twice] - self.nbytes[0], 1.0)
        per_byte = np.clip(per_byte, 0.0, self.measured[0] / self.nbytes[0])  # noise must bring no time below 0
        below = per_byte * np.maximum(self.nbytes[0] - wanted, 0.0)
        return np.asarray(within * np.maximum(1.0, wanted / self.nbytes[-1]) - below)


def fit_all_reduce(table: AllReduceTable, gpus: int) -> AllReduceFit:
    """Fit latency and bandwidth to a table by non-negative least squares of relative errors, octaves of sizes counting alike.

    A third term, the square root of the size, was tried and left out: on sizes left out it gained nothing.

    Raises:
        InputError: fewer than three sizes, or times that do not grow with size.
    """
    if len(table.nbytes) < 3:
        raise InputError(f"{len(table.nbytes)} sizes of an all-reduce over {gpus} GPUs; a fit needs at least three")
    sent = 2 * (gpus - 1) / gpus * table.nbytes
    terms = np.stack([np.ones_like(sent), sent], axis=1)
    weight = np.sqrt(np.gradient(np.log(table.nbytes)))
    (latency, per_byte), _ = nnls(terms / table.measured[:, None] * weight[:, None], weight)
    if per_byte == 0:
        raise InputError(
            f"all-reduces over {gpus} GPUs do not take longer with size, so their bandwidth is unknown; measure larger sizes"
        )
    return AllReduceFit(gpus=gpus, latency=latency, bandwidth=1 / per_byte)


def read_all_reduces(path: Path, gpu: str | None = None) -> dict[int, AllReduceTable]:
    """Read measured all-reduces by number of GPUs from a CSV file (``bytes``, ``gpu``, ``gpus``, ``time_ns``; may be packed).

    ``bytes`` is the size of the buffer, not MiB and not what the ring sends. Of a size measured twice the median is taken.

    Raises:
        InputError: the file cannot be read, holds not exactly one GPU where none is named, or a figure is not positive.
    """
    rows = parse_csv(read_text(path), str(path), as_text=("gpu",))
    known = sorted(set(rows["gpu"]))
    if gpu is None and len(known) == 1:
        gpu = known[0]
    if gpu not in known:
        raise InputError(f"{path} holds all-reduces of {', '.join(known) or 'no GPU'}; name the GPU to use")
    figures = rows.loc[rows["gpu"] == gpu, ["bytes", "gpus", "time_ns"]].astype(float)
    if not ((figures > 0) & np.isfinite(figures)).all(axis=None):
        raise InputError(f"{path} has a figure that is not above 0; remove or correct it")
    times = figures.groupby(["gpus", "bytes"])["time_ns"].median() * 1e-9
    tables = {}
    for gpus in sorted(set(figures["gpus"])):
        own = times.loc[gpus]
        tables[int(gpus)] = AllReduceTable(own.index.to_numpy(np.float64), own.to_numpy(np.float64))
    return tables
