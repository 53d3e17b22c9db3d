"""What a job is rented on: what its operator says, else its node, else the cheapest that has its GPUs, which is marked so."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from epochcast.analyzer.jobs.prices import Instance, Market

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.watched import JobPlan
    from epochcast.analyzer.telemetry.gpu_report import GpuDevice


@dataclass(frozen=True)
class Rented:
    """What a job runs on.

    Attributes:
        instance: None where the price table has nothing with this GPU.
        market: which of its prices is taken: the requested one, else the other.
        assumed: nobody said what is rented.
        notes: sentences on what was said and cannot be used.
        share: of its price that the job pays, 0..1: its GPUs of all; the rest is paid by others on the same machine.
        usd_per_gpu_hour: one GPU's share of its machine's price; None where that is not known.
    """

    instance: Instance | None
    market: Market
    assumed: bool
    notes: tuple[str, ...] = ()
    share: float = 1.0
    usd_per_gpu_hour: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        price = None if self.instance is None else self.instance.price(self.market)
        each = None if self.instance is None or price is None else price / self.instance.count
        object.__setattr__(self, "usd_per_gpu_hour", each)


def rented_now(
    gpu: str,
    gpus: int,
    instances: Sequence[Instance],
    machines: int,
    market: Market,
    clouds: Sequence[str],
    usd_per_hour: float | None,
) -> Rented:
    """What a job is rented on of which nobody says more than ``usd_per_hour``, that of all of its GPUs.

    In one of ``clouds`` where it would fill an instance there, else anywhere.
    """
    if usd_per_hour is None:
        filled = [each for each in instances if each.cloud in clouds and each.gpu == gpu and gpus % each.count == 0]
        there = rented(gpu, gpus, filled, machines=machines, market=market) if filled else None
        return there if there and there.instance else rented(gpu, gpus, instances, machines=machines, market=market)
    name = "the present instance"
    given = Instance("", name, gpu, gpus, "any", usd_per_hour, "given", date.today(), spot_usd_per_hour=usd_per_hour)
    return Rented(given, market, assumed=False)


def rented(
    gpu: str,
    gpus: int,
    instances: Sequence[Instance],
    *,
    plan: JobPlan | None = None,
    devices: Sequence[GpuDevice] = (),
    machines: int = 1,
    market: Market = "on-demand",
) -> Rented:
    """Find what a job of ``gpus`` GPUs of model ``gpu`` is rented on.

    ``plan`` wins over what the ``devices`` say. Cloud and region narrow the search also where no instance is named. What is
    assumed has its GPUs in no more than ``machines``; without such an instance nothing is.
    """
    places: list[JobPlan | GpuDevice] = [*([] if plan is None else [plan]), *devices]
    name = next((place.instance for place in places if place.instance), "")
    cloud = next((place.cloud for place in places if place.cloud), "")
    region = next((place.region for place in places if place.region), "")
    notes: list[str] = []
    if name:
        named = [instance for instance in instances if instance.name.lower() == name.lower()]
        fitting = _of_place([instance for instance in named if instance.gpu == gpu], cloud, region)
        if cheapest := _cheapest(fitting, gpus, market):
            return Rented(*cheapest, assumed=False, share=_share(gpus, cheapest[0]))
        if named and all(instance.gpu != gpu for instance in named):
            has = ", ".join(sorted({instance.gpu for instance in named}))
            why = f"it has {has} but the job runs on {gpu}"
        elif named:
            why = f"none of that name has {gpu} in {' '.join(filter(None, (cloud, region)))}"
        else:
            why = "the price table does not list it"
        notes.append(f"the job is reported to run on {name}, but {why}: the cheapest instance with {gpu} is used instead")
    own = [instance for instance in instances if instance.gpu == gpu and math.ceil(gpus / instance.count) <= machines]
    if not own and any(instance.gpu == gpu for instance in instances):
        # The price of as many smaller ones would be far from the true one, and so would what is saved.
        each = math.ceil(gpus / machines)
        where = "the job's node has" if machines == 1 else "each node of the job has"
        why = f"no instance in the price table has {each} {gpu}, as {where}, so its cost now and possible savings are not known"
        return Rented(None, market, assumed=True, notes=(*(note.rpartition(":")[0] for note in notes), why))
    cheapest = _cheapest(_of_place(own, cloud, region), gpus, market) or _cheapest(own, gpus, market)
    instance, taken = cheapest or (None, market)
    share = 1.0 if instance is None else _share(gpus, instance)
    return Rented(instance, taken, assumed=True, notes=tuple(notes), share=share)


def _share(gpus: int, instance: Instance) -> float:
    """Jobs side by side on one machine cost one machine together."""
    return gpus / (instance.count * math.ceil(gpus / instance.count))


def usd_per_hour(gpus: Iterable[str], instances: Sequence[Instance]) -> float | None:
    """What an hour of these GPUs costs, each on the cheapest instance that has it; None where the price table lacks one.

    Args:
        gpus: names in the catalogue, one for each GPU.
        instances: the price table.
    """
    prices = [rented(gpu, 1, instances).usd_per_gpu_hour for gpu in gpus]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def _of_place(instances: Sequence[Instance], cloud: str, region: str) -> list[Instance]:
    """Those of this cloud; of them those of this region, or all if the table has no price there."""
    there = [instance for instance in instances if not cloud or instance.cloud.lower() == cloud.lower()]
    return [instance for instance in there if not region or instance.region in (region, "any")] or there


def _cheapest(instances: Sequence[Instance], gpus: int, market: Market) -> tuple[Instance, Market] | None:
    """Least price for all GPUs of the job: of fresh ones if there are any, and in the requested market, else in the other."""
    markets: tuple[Market, Market] = ("on-demand", "spot") if market == "on-demand" else ("spot", "on-demand")

    def place(choice: tuple[Instance, Market]) -> tuple[bool, int, float, int, str, str, str]:
        """Of equal prices the one that the ranking puts first."""
        instance, option = choice
        usd = (instance.price(option) or 0.0) * math.ceil(gpus / instance.count)
        return (instance.is_stale, markets.index(option), usd, instance.count, *instance.offer[:3])

    priced = [(each, option) for each in instances for option in markets if each.price(option) is not None]
    return min(priced, key=place, default=None)
