"""How much carbon dioxide a kWh of a region's grid causes: a yearly mean of each place, from ``grids.csv``.

Operational emissions of what the grid generates; contracts of a cloud for green power do not count. Google publishes them for
the places of its regions; regions of other clouds in the same place take the same figure.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from epochcast.regressor.prediction import Estimate

_JOULES_PER_KWH = 3.6e6


@dataclass(frozen=True)
class CarbonIntensity:
    """``grams_per_kwh`` [g CO2e/kWh], as ``source`` has it."""

    grams_per_kwh: float
    source: str


def of_region(cloud: str, region: str) -> CarbonIntensity | None:
    """Of the grid of a cloud's region; None where it is not known."""
    return _grids().get((cloud.lower(), region.lower()))


def grams_of(joules: Estimate | None, grams_per_kwh: float | None) -> Estimate | None:
    """Carbon dioxide equivalents [g] of an energy; None where one of the two is not known."""
    return None if joules is None or grams_per_kwh is None else joules.times(grams_per_kwh / _JOULES_PER_KWH)


@cache
def _grids() -> Mapping[tuple[str, str], CarbonIntensity]:
    text = resources.files(__package__).joinpath("grids.csv").read_text(encoding="utf-8")
    return {
        (row["cloud"], row["region"]): CarbonIntensity(float(row["grams_per_kwh"]), f"{row['source']}, {row['year']}")
        for row in csv.DictReader(text.splitlines())
    }
