"""What jobs and idle GPUs cost where they are, and what a job would cost where it should run.

A job pays for its share of the machine that it runs on: eight jobs of one GPU each on a machine of eight cost one machine
together, not eight. What is recommended is priced whole, as somebody would have to rent it."""

from __future__ import annotations

from dataclasses import dataclass

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.prices.rented import rented
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.telemetry.gpu_report import GpuDevice
from epochcast.analyzer.traces.static_gpu import gpu_of

_HOUR_S = 3600.0


@dataclass(frozen=True)
class Saving:
    """Following the first line, for an hour of what a job does now; 0 where it should stay.

    Attributes:
        usd_per_hour: what the job costs now: its share of what it runs on.
        to: where it should run.
        ratio: share of the present cost that it would save there.
        low, high: 90 % interval of ``ratio``, from the prediction's.
    """

    usd_per_hour: float
    to: Placement
    ratio: float
    low: float
    high: float

    @property
    def saved_usd_per_hour(self) -> float:
        """USD for each hour that the job runs now."""
        return self.ratio * self.usd_per_hour

    def usd(self, seconds: float) -> float:
        """What would have been saved of so many seconds of the job as it runs now."""
        return self.saved_usd_per_hour * seconds / _HOUR_S


def saving_of(recommendation: Recommendation) -> Saving | None:
    """Compare where a job runs with where it should run; None where either is not known."""
    now, to = recommendation.current, recommendation.verdict.best
    if now is None or to is None:
        return None
    usd_per_hour = now.usd_per_hour
    return Saving(
        usd_per_hour,
        to,
        _saved(to.prediction.ratio, to, usd_per_hour),
        _saved(to.prediction.ratio_high, to, usd_per_hour),
        _saved(to.prediction.ratio_low, to, usd_per_hour),
    )


def _saved(ratio: float, to: Placement, usd_per_hour: float) -> float:
    return 1 - ratio * to.usd_per_hour / usd_per_hour


@dataclass(frozen=True)
class GpuPrice:
    """Of one GPU: its share of the instance's price.

    Attributes:
        usd_per_hour: None where the price table has nothing with this GPU.
        assumed: nobody said what is rented.
    """

    usd_per_hour: float | None
    assumed: bool

    def held_idle_usd(self, seconds: float | None) -> float | None:
        """What so many seconds of being held but idle cost; None where either is not known."""
        return None if seconds is None or self.usd_per_hour is None or self.assumed else seconds / _HOUR_S * self.usd_per_hour


class GpuPrices:
    """Looks each kind up once."""

    def __init__(self, advisor: Advisor) -> None:
        """Take the catalogue and the prices of ``advisor``."""
        self._advisor = advisor
        self._known: dict[tuple[str, str, str, str], GpuPrice] = {}

    def of(self, device: GpuDevice) -> GpuPrice:
        """Its price."""
        kind = (device.name, device.instance, device.cloud, device.region)
        if kind not in self._known:
            self._known[kind] = self._price(device)
        return self._known[kind]

    def _price(self, device: GpuDevice) -> GpuPrice:
        try:
            gpu = gpu_of(device.name, device.static, self._advisor.catalog).name
        except ValueError:  # a GPU that nothing is known of
            return GpuPrice(None, assumed=True)
        on = rented(gpu, 1, self._advisor.instances, devices=(device,), market=self._advisor.configured.limits.market)
        return GpuPrice(on.usd_per_gpu_hour, on.assumed)
