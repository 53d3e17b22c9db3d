"""timm_families.csv: which networks are of one design, and which are ConvNets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from epochcast.analyzer.traces.csv_text import parse_csv, read_text


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
