"""The table of points on the disk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from epochcast.analyzer.backends.convmeter.metrics import COLUMNS
from epochcast.analyzer.backends.convmeter.points import KEYS, PHASES, TIMES
from epochcast.analyzer.backends.growing_table import GrowingTable

SPREADS = tuple(f"{phase}_iqr" for phase in PHASES)
"""Interquartile ranges of :data:`TIMES`, seconds."""

HEADER = (*KEYS, *TIMES, *SPREADS, "rounds", "optimizer", "software", *COLUMNS)
"""``rounds``: how often each phase was repeated (the fewest of a row's)."""

_IDENTITY = ("precision", "network", "block", "image_size", "batch", "devices", "nodes")


def points_file(path: Path, place: Mapping[str, str]) -> GrowingTable:
    """The file, begun or continued; ``place`` are its device, optimizer and software.

    Raises:
        InputError: as :class:`GrowingTable`.
    """
    return GrowingTable(path, HEADER, place, _IDENTITY)
