"""Energy of a job where it could run, and the carbon dioxide that this causes.

Counted is what the GPUs draw, as their sensors show it: neither the host, nor cooling and losses of the building (PUE), nor the
making of the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epochcast.analyzer.answers.job_result import JobResult
from epochcast.analyzer.instances.carbon_intensity import JOULES_PER_KWH, CarbonIntensity, of_region
from epochcast.analyzer.recommendation import Recommendation
from epochcast.regressor.prediction import Estimate

GIVEN = "given"

OF_CARBON = "the GPUs' energy times the carbon intensity of the electricity, without host and cooling"
"""What a figure of carbon dioxide is, for people."""


@dataclass(frozen=True)
class Emissions:
    """``energy`` [J] of the GPUs for what a recommendation's seconds are of, and the grid's intensity; None: not known."""

    energy: Estimate | None
    intensity: CarbonIntensity | None

    @property
    def grams(self) -> Estimate | None:
        """Carbon dioxide equivalents [g]."""
        return None if self.intensity is None else grams_of(self.energy, self.intensity.grams_per_kwh)

    def to_json(self) -> dict[str, Any]:
        """Energy, carbon, and what the latter rests on."""
        known = self.intensity
        return {
            **_of(self.energy, "joules"),
            **_of(self.grams, "grams_co2e"),
            "carbon_intensity": None if known is None else known.grams_per_kwh,
            "carbon_source": None if known is None else known.source,
        }


def emissions(result: JobResult, row: Recommendation, gpus: int) -> Emissions:
    """Of a job on ``gpus`` GPUs of what a row recommends: all of its time counts as if it drew the power of an epoch.

    The intensity that was given holds everywhere; else that of the region counts.
    """
    given, instance = result.carbon_intensity, row.instance
    known = of_region(instance.cloud, instance.region) if given is None else CarbonIntensity(given, GIVEN)
    answer = next((each for each in result.answers if each.prediction.gpu == instance.gpu), None)
    if answer is None or answer.energy is None or answer.energy.joules is None or row.seconds is None:
        return Emissions(None, known)
    as_it_is = answer.prediction
    assert as_it_is.seconds is not None  # or there were no joules
    factor = gpus / as_it_is.gpus * row.seconds.value / as_it_is.seconds
    return Emissions(answer.energy.joules.times(factor), known)


def grams_of(energy: Estimate | None, grams_per_kwh: float | None) -> Estimate | None:
    """Carbon dioxide equivalents [g] of an energy [J]; None where one of the two is not known."""
    return None if energy is None or grams_per_kwh is None else energy.times(grams_per_kwh / JOULES_PER_KWH)


def _of(estimate: Estimate | None, name: str) -> dict[str, float | None]:
    return {**dict.fromkeys(Estimate(0, 0, 0).to_json(name))} if estimate is None else {**estimate.to_json(name)}
