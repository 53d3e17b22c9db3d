"""What an hour of one GPU of a machine costs, by what is rented, or by the cheapest that has it."""

from __future__ import annotations

from dataclasses import dataclass

from ..answers.advisor import Advisor
from ..instances.rented import rented
from ..telemetry.gpu_report import Device
from ..traces.static_gpu import gpu_of


@dataclass(frozen=True)
class GpuPrice:
    """Of one GPU: its share of the instance's price.

    Attributes:
        usd_per_hour: None where the price table has nothing with this GPU.
        assumed: nobody said what is rented.
    """

    usd_per_hour: float | None
    assumed: bool


class GpuPrices:
    """Looks each kind up once."""

    def __init__(self, advisor: Advisor) -> None:
        """Take the catalogue and the prices of ``advisor``."""
        self._advisor = advisor
        self._known: dict[tuple[str, str, str, str], GpuPrice] = {}

    def of(self, device: Device) -> GpuPrice:
        """Its price."""
        kind = (device.name, device.instance, device.cloud, device.region)
        if kind not in self._known:
            self._known[kind] = self._found(device)
        return self._known[kind]

    def _found(self, device: Device) -> GpuPrice:
        try:
            gpu = gpu_of(device.name, device.static, self._advisor.catalog).name
        except ValueError:  # a GPU that nothing is known of
            return GpuPrice(None, assumed=True)
        on = rented(gpu, 1, self._advisor.instances, devices=(device,), market=self._advisor.renting.limits.market)
        price = None if on.instance is None else on.instance.price(on.market)
        if on.instance is None or price is None:
            return GpuPrice(None, assumed=True)
        return GpuPrice(price / on.instance.count, on.assumed)
