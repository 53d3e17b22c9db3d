"""Reads public tables of measured networks as points; a format is a file here and an entry of ``_FORMATS``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS, KEYS, TIMES, read_points
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.csv_text import parse_csv, read_text
from lab.convmeter_tables import convnet_bench, cpu_phases, timm_benchmark, torchvision_times
from lab.convmeter_tables.layer_features import read_layer_features

NO_METRICS = "metrics unknown"
NO_FAMILY = "family unknown"
NO_CONVNET = "no ConvNet"


_FORMATS = (timm_benchmark, torchvision_times, cpu_phases, convnet_bench)
"""Each says by ``recognises(table)`` whether the columns are its own, and by ``read(table, path, features)`` gives points.

NaN in metrics that are unknown, and in ``family`` where the table has none.
"""


@dataclass(frozen=True)
class Families:
    """By the name of the network: its family, and whether it counts as a ConvNet."""

    family: Mapping[str, str]
    convnet: Mapping[str, bool]


def read_families(path: Path) -> Families:
    """Read a table with the columns ``model``, ``family`` and ``conv`` (True or False)."""
    table = parse_csv(read_text(path), str(path))
    names, convnet = table["model"].astype(str), table["conv"].astype(str).str.lower() == "true"
    return Families(dict(zip(names, table["family"].astype(str), strict=True)), dict(zip(names, convnet, strict=True)))


@dataclass(frozen=True)
class UsablePoints:
    """Points that can be fitted or predicted.

    Attributes:
        points: usable rows (``metrics.py``), index from 0.
        left_out: how many rows were not usable, by the reason; those of :data:`NO_CONVNET` are left out on purpose.
    """

    points: pd.DataFrame
    left_out: Mapping[str, int]

    @property
    def lacking(self) -> int:
        """Rows of ConvNets that cannot be predicted."""
        return sum(count for reason, count in self.left_out.items() if reason != NO_CONVNET)


def read_all(
    paths: Sequence[Path], features: Path | None = None, families: Path | None = None, *, convnets_only: bool = True
) -> UsablePoints:
    """Read tables of `python -m lab.measure convmeter` and of the known formats, and join them.

    Args:
        paths: of the tables, 1 or more; their columns say which format they have.
        features: layer metrics of timm's networks; its tables need it, no other does.
        families: family of each network and whether it is a ConvNet; timm's tables need it, in others it overrides their own.
        convnets_only: leave out networks that ``families`` says are none.

    Raises:
        InputError: a file is missing or of no known format, or no row is left.
    """
    metrics = None if features is None else read_layer_features(features)
    names = None if families is None else read_families(families)
    points, left_out = [], dict.fromkeys((NO_METRICS, NO_FAMILY, NO_CONVNET), 0)
    for path in paths:
        reading = _usable(_read(path, metrics), path, names, convnets_only)
        points.append(reading.points)
        for reason, count in reading.left_out.items():
            left_out[reason] += count
    return UsablePoints(pd.concat(points, ignore_index=True), {reason: count for reason, count in left_out.items() if count})


def _read(path: Path, features: pd.DataFrame | None) -> pd.DataFrame:
    table = parse_csv(read_text(path), str(path))
    if {*KEYS, *COLUMNS}.issubset(table.columns):
        return read_points(path)
    for table_format in _FORMATS:
        if table_format.recognises(table):
            points: pd.DataFrame = table_format.read(table, path, features)
            return points
    raise InputError(f"{str(path)!r} has the columns {', '.join(map(str, table.columns[:4]))} …, which no known table has")


def _usable(points: pd.DataFrame, path: Path, families: Families | None, convnets_only: bool) -> UsablePoints:
    """Put the families in; leave out what cannot be predicted, and if only ConvNets are read all else."""
    selected = pd.Series(True, points.index)
    if families is not None:
        known = points["network"].isin(list(families.family))
        points = points.assign(family=points["network"].map(families.family).where(known, points["family"]))
        if convnets_only:
            selected = ~points["network"].map(families.convnet).eq(False)
    without_metrics = selected & points[list(COLUMNS)].isna().any(axis=1)
    without_family = selected & ~without_metrics & points["family"].isna()
    kept = points[selected & ~without_metrics & ~without_family]
    if kept.empty:
        raise InputError(
            f"{str(path)!r} has no usable network of {len(points)} (not ConvNets: {(~selected).sum()}, without metrics: "
            f"{without_metrics.sum()}); timm's tables need --features and --families"
        )
    left_out = {NO_METRICS: without_metrics, NO_FAMILY: without_family, NO_CONVNET: ~selected}
    return UsablePoints(
        kept[[*KEYS, *TIMES, *COLUMNS]].reset_index(drop=True), {reason: int(rows.sum()) for reason, rows in left_out.items()}
    )
