"""One kind of instance as an answer: what the job would take and cost there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from epochcast.analyzer.instances import Instance, Market
from epochcast.analyzer.recommendation.whole_job import WholeJob
from epochcast.regressor import Prediction
from epochcast.regressor.prediction import Estimate, by_data_sheet

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Recommendation:
    """One instance for a job (or one epoch of it), in one market.

    Attributes:
        instance: where to run.
        market: which of the instance's prices ``usd_per_hour`` is.
        usd_per_hour: of all ``instances``, each whole: idle GPUs are paid for too.
        prediction: of one epoch or step there. The interval of its ratio is what separates two GPUs: an error in the source's
            own seconds is the same for all.
        seconds: of the job with everything that is paid for, 90 % interval; None where only the ratio is known.
        fits: whether the GPU has the memory that the job needs; None where that is not known.
        pareto: no other recommendation is both faster and cheaper.
        deadline_chance, budget_chance: chance to keep the limit that was given; None without one.
        job: what ``seconds`` is spent on; None for one epoch.
        instances: how many of them the job takes.
        price_stale: the price is older than a year, and ranks after all newer ones.
    """

    instance: Instance
    market: Market
    usd_per_hour: float
    prediction: Prediction
    seconds: Estimate | None
    fits: bool | None
    pareto: bool
    deadline_chance: float | None = None
    budget_chance: float | None = None
    job: WholeJob | None = None
    instances: int = 1
    price_stale: bool = False

    @property
    def gpus(self) -> int:
        """How many GPUs of the instances the job uses."""
        return self.instances * self.prediction.gpus

    @property
    def hardware(self) -> tuple[str, int]:
        """Where the job takes equally long: the GPU and how many of them."""
        return self.instance.gpu, self.gpus

    @property
    def usd(self) -> Estimate | None:
        """Cost of the job there [USD], 90 % interval."""
        return None if self.seconds is None else self.seconds.times(self.usd_per_hour / _HOUR_S)

    def to_json(self) -> dict[str, Any]:
        """The keys of the command contract, and the price's provenance."""
        nothing = Estimate(0, 0, 0)
        seconds = dict.fromkeys(nothing.to_json("seconds")) if self.seconds is None else self.seconds.to_json("seconds")
        usd = dict.fromkeys(nothing.to_json("usd")) if self.usd is None else self.usd.to_json("usd")
        return {
            **self.instance.place,
            "gpu_count": self.instance.count,
            "instances": self.instances,
            "gpus": self.gpus,
            "vcpus": self.instance.vcpus,
            "host_memory_bytes": self.instance.memory,
            "market": self.market,
            "ratio": self.prediction.ratio,
            "ratio_low": self.prediction.ratio_low,
            "ratio_high": self.prediction.ratio_high,
            **seconds,
            **usd,
            "job": None if self.job is None else self.job.to_json(),
            "usd_per_hour": self.usd_per_hour,
            "fits": self.fits,
            "pareto": self.pareto,
            "deadline_chance": self.deadline_chance,
            "budget_chance": self.budget_chance,
            "price_source": self.instance.source,
            "price_date": self.instance.date.isoformat(),
            "price_stale": self.price_stale,
            "by_data_sheet": by_data_sheet(self.prediction.route),
            "why": self.prediction.why,
        }
