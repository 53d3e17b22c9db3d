"""A job placed on one kind of instance: what it would take and cost there."""

from __future__ import annotations

from dataclasses import dataclass, field

from epochcast.analyzer.jobs.cycles import Throughput
from epochcast.analyzer.jobs.emissions import CarbonIntensity
from epochcast.analyzer.jobs.prices import Instance, Market
from epochcast.analyzer.jobs.whole_job import WholeJob
from epochcast.regressor.prediction import Estimate, Prediction

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Placement:
    """A job (or one epoch, cycle or step of it) on one kind of instance, in one market.

    Attributes:
        instance: where to run.
        market: which of the instance's prices ``usd_per_hour`` is.
        usd_per_hour: of all ``instances``, each whole: idle GPUs are paid for too.
        prediction: of one epoch, cycle or step there. The interval of its ratio is what separates two GPUs: an error in the
            source's own seconds is the same for all.
        seconds: of the job with everything that is paid for, 90 % interval; None where only the ratio is known.
        fits: whether the GPU has the memory that the job needs; None where that is not known.
        pareto: no other placement is both faster and cheaper.
        deadline_chance, budget_chance: chance to keep the limit that was given; None without one.
        job: what ``seconds`` is spent on; None for one epoch.
        instances: how many of them the job takes.
        price_stale: the price is older than a year, and ranks after all newer ones.
        joules: energy of the GPUs for what ``seconds`` is of; None without power readings.
        grams_co2e: carbon dioxide equivalents of ``joules``, without host and cooling; None where the grid is not known.
        carbon: of the grid, or what was given; None where it is not known.
        throughput: there; None where the job's is not known.
        gpus: of all instances that the job uses.
        usd: cost of the job there, 90 % interval; None without ``seconds``.
    """

    instance: Instance
    market: Market
    usd_per_hour: float
    prediction: Prediction
    seconds: Estimate | None
    fits: bool | None = None
    pareto: bool = False
    deadline_chance: float | None = None
    budget_chance: float | None = None
    job: WholeJob | None = None
    instances: int = 1
    price_stale: bool = False
    joules: Estimate | None = None
    grams_co2e: Estimate | None = None
    carbon: CarbonIntensity | None = None
    throughput: Throughput | None = None
    gpus: int = field(init=False, default=0)
    usd: Estimate | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        usd = None if self.seconds is None else self.seconds.times(self.usd_per_hour / _HOUR_S)
        object.__setattr__(self, "usd", usd)
        object.__setattr__(self, "gpus", self.instances * self.prediction.gpus)

    @property
    def title(self) -> str:
        """For people: ``2 x aws g6e.xlarge (2 x L40S)``."""
        count, gpus = f"{self.instances} x " * (self.instances > 1), f"{self.gpus} x " * (self.gpus > 1)
        return f"{count}{self.instance.cloud} {self.instance.name} ({gpus}{self.instance.gpu})".strip()

    @property
    def hardware(self) -> tuple[str, int]:
        """Where the job takes equally long: the GPU and how many of them."""
        return self.instance.gpu, self.gpus
