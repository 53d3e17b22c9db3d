"""timm_families.csv: which networks are of one design, and which are ConvNets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from epochcast.analyzer.csv_text import parse_csv, read_text
from epochcast.analyzer.errors import InputError

_CONVNET = {"true": True, "false": False, "1": True, "0": False}


@dataclass(frozen=True)
class Families:
    """By the name of the network: its family, and whether it counts as a ConvNet."""

    family: Mapping[str, str]
    convnet: Mapping[str, bool]


def read_families(path: Path) -> Families:
    """Read a table with the columns ``model``, ``family`` and ``conv`` (True or False).

    Raises:
        InputError: the file is missing or no such table.
    """
    table = parse_csv(read_text(path), str(path))
    if missing := [name for name in ("model", "family", "conv") if name not in table]:
        raise InputError(f"{str(path)!r} lacks the column {missing[0]!r}; the columns must be model, family and conv")
    convnet = table["conv"].astype(str).str.lower().map(_CONVNET)
    if convnet.isna().any():
        bad = table["conv"][convnet.isna()].iloc[0]
        raise InputError(f"column 'conv' of {str(path)!r} holds {bad!r}; write True for ConvNets and False for others")
    names = table["model"].astype(str)
    return Families(
        dict(zip(names, table["family"].astype(str), strict=True)), dict(zip(names, convnet.astype(bool), strict=True))
    )
