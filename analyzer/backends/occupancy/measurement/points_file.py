"""The two tables on the disk: points, and the kernels that their occupancies were calculated from."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from .....common.files import write_whole
from ....errors import InputError
from ...growing_table import GrowingTable
from ..configuration import Configuration
from ..launch.kernel_table import COLUMNS as KERNEL_COLUMNS
from ..launch.kernel_table import LAUNCH, Aggregate
from ..networks import family
from ..points import COLUMNS, CONFIGURATION, TARGETS

HEADER = (*COLUMNS, "unknown", "step_iqr_s", "steps", "host_step_s", "host_memory_bytes", "device", "software")
"""``unknown``: launches whose occupancy could not be calculated. ``step_iqr_s``, ``steps``: spread and number of the steps that
were timed. Beside modelled labels ``host_step_s``: of a step on this machine's CPU, ``host_memory_bytes``: by how much the
process grew for it."""

_GZIP = b"\x1f\x8b"
_IDENTITY = (*CONFIGURATION, "gpu", "labels")


def points_file(path: Path, place: Mapping[str, str]) -> GrowingTable:
    """The table of points, begun or continued; ``place`` are its device and software.

    Raises:
        InputError: as :class:`GrowingTable`.
    """
    return GrowingTable(path, HEADER, place, _IDENTITY)


def workload(row: Mapping[str, object]) -> str:
    """What the launches of a row of the table of points are called in the table of kernels."""
    sizes = [f"{name}={row[name]}" for name in CONFIGURATION[1:] if str(row[name]) != "0"]
    return "/".join([str(row["network"]), *sizes, str(row["labels"])])


class KernelsFile:
    """A kernel table (``launch/kernel_table.py``) beside the points, ``NAME.kernels.csv.gz``: launches alike are one row.

    Each point's launches are one member of the gzip file. Members that are not whole, and launches without a point, are dropped
    when the file is opened: the last run was stopped in between.

    Args:
        points: path of the table of points.

    Raises:
        InputError: the file holds something else, or cannot be written.
    """

    def __init__(self, points: Path) -> None:
        self.path = points.with_name(f"{points.stem}.kernels.csv.gz")
        if self.path.exists():
            self._mend(points)

    def append(self, row: Mapping[str, object], table: pd.DataFrame) -> None:
        """Write the launches of a row of the table of points."""
        grouped = table.groupby([*LAUNCH, "gpu"], dropna=False, sort=False)
        alike = grouped.agg(duration=("duration", "mean"), count=("count", "sum"), achieved=("achieved", "mean"))
        member = alike.reset_index().assign(workload=workload(row)).reindex(columns=KERNEL_COLUMNS)
        text = member.to_csv(index=False, header=not self.path.exists(), lineterminator="\n")
        try:
            with self.path.open("ab") as file:
                file.write(gzip.compress(text.encode()))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"cannot write {str(self.path)!r}: {error.strerror or error}") from error

    def _mend(self, points: Path) -> None:
        try:
            content = self.path.read_bytes()
        except OSError as error:
            raise InputError(f"cannot continue {str(self.path)!r}: {error.strerror or error}; give another file") from error
        text, torn = _whole_members(content)
        header = ",".join(KERNEL_COLUMNS) + "\n"
        foreign = content and not content.startswith(_GZIP)
        if foreign or not (text or header).startswith(header):
            raise InputError(f"{str(self.path)!r} holds no kernels of this command; move it away")
        kernels = pd.read_csv(io.StringIO(text or header), keep_default_na=False, dtype=str)
        rows = pd.read_csv(points, keep_default_na=False, dtype=str)
        known = {workload({str(name): cell for name, cell in row.items()}) for row in rows.to_dict("records")}
        kept = kernels[kernels["workload"].isin(known)]
        if not torn and len(kept) == len(kernels):
            return
        if kept.empty:
            self.path.unlink()
            return
        mended = gzip.compress(kept.to_csv(index=False, lineterminator="\n").encode())
        write_whole(self.path, lambda file: file.write(mended))


def _whole_members(content: bytes) -> tuple[str, bool]:
    """Text of the members that are whole, up to the first that is not; whether there is one."""
    parts: list[bytes] = []
    rest = content
    while rest:
        stream = zlib.decompressobj(wbits=31)
        try:
            part = stream.decompress(rest)
        except zlib.error:
            break
        if not stream.eof:
            break
        parts.append(part)
        rest = stream.unused_data
    return b"".join(parts).decode("utf-8", errors="replace"), bool(rest)


@dataclass(frozen=True)
class Measured:
    """What a bench gives for a configuration and a kind of labels.

    Attributes:
        row: columns of ``points_file.HEADER``.
        kernels: a kernel table; None where the launches are only modelled.
    """

    row: Mapping[str, Any]
    kernels: pd.DataFrame | None = None


def label_row(configuration: Configuration, gpu: str, labels: str, occupancy: Aggregate, launches: float) -> dict[str, Any]:
    """The columns that every row has.

    Raises:
        ValueError: the occupancies are not known.
    """
    ratios = {target: float(getattr(occupancy, target)) for target in TARGETS}
    if any(not 0 <= value <= 1 for value in ratios.values()):
        raise ValueError("no occupancy could be calculated")
    own = {**asdict(configuration), "family": family(configuration.network)}
    return {**own, "gpu": gpu, "labels": labels, **ratios, "kernels": int(launches)}
