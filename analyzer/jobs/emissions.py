"""Energy of a job where it could run, and the carbon dioxide that this causes, by the yearly mean of each place's grid.

Counted is what the GPUs draw, as their sensors show it: neither the host, nor cooling and losses of the building (PUE), nor the
making of the hardware. Of the grid count operational emissions, no contracts of a cloud for green power: Google publishes them
for the places of its regions (``prices/grids.csv``); regions of other clouds in the same place take the same figure.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from epochcast.regressor.prediction import Estimate

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.placement import Placement
    from epochcast.analyzer.jobs.predict import Target

OF_CARBON = "the GPUs' energy times the carbon intensity of the electricity, without host and cooling"
"""What a figure of carbon dioxide is, for people."""

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


def add_emissions(row: Placement, target: Target | None, gpus: int, grams_per_kwh: float | None) -> Placement:
    """The placement with the energy of all of its time, as if it drew the power of an epoch, and the carbon of that.

    Args:
        row: where.
        target: the job on its GPU; None where nothing is known of it.
        gpus: that the job uses there.
        grams_per_kwh: of the electricity everywhere; None: that of the instance's region counts.
    """
    given = None if grams_per_kwh is None else CarbonIntensity(grams_per_kwh, "given")
    row = replace(row, carbon=given or of_region(row.instance.cloud, row.instance.region))
    if target is None or target.energy is None or target.energy.joules is None or target.seconds is None or row.seconds is None:
        return row
    joules = target.energy.joules.times(gpus / target.gpus * row.seconds.value / target.seconds)
    return replace(row, joules=joules, grams_co2e=grams_of(joules, None if row.carbon is None else row.carbon.grams_per_kwh))


@cache
def _grids() -> Mapping[tuple[str, str], CarbonIntensity]:
    text = resources.files(__package__).joinpath("prices", "grids.csv").read_text(encoding="utf-8")
    return {
        (row["cloud"], row["region"]): CarbonIntensity(float(row["grams_per_kwh"]), f"{row['source']}, {row['year']}")
        for row in csv.DictReader(text.splitlines())
    }
