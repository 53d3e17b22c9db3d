"""Energy of a job where it could run, and the carbon dioxide that this causes.

Counted is what the GPUs draw, as their sensors show it: neither the host, nor cooling and losses of the building (PUE), nor the
making of the hardware.
"""

from __future__ import annotations

from dataclasses import replace

from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.predict import Target
from epochcast.analyzer.jobs.prices.carbon_intensity import CarbonIntensity, grams_of, of_region

OF_CARBON = "the GPUs' energy times the carbon intensity of the electricity, without host and cooling"
"""What a figure of carbon dioxide is, for people."""


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
