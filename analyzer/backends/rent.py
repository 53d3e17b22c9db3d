"""What the GPUs of a job cost: the cheapest instances that hold them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from epochcast.analyzer.jobs.prices import Instance, stale_note


@dataclass(frozen=True)
class Rent:
    """``count`` instances of one kind, paid whole and on demand."""

    instance: Instance
    count: int
    usd_per_hour: float

    @property
    def rented(self) -> dict[str, Any]:
        """Fields of a :class:`...plugins.answer.Rented`."""
        return {
            **self.instance.place,
            "gpus_each": self.instance.count,
            "count": self.count,
            "usd_per_hour": self.usd_per_hour,
            "price_of": self.instance.date.isoformat(),
        }

    @property
    def is_stale(self) -> bool:
        """Whether its price is older than a year today."""
        return self.instance.is_stale

    def usd(self, seconds: float) -> float:
        """USD for so many seconds."""
        return self.usd_per_hour * seconds / 3600


def cheapest_rent(instances: Sequence[Instance], gpu: str, gpus: int, gpus_per_node: int) -> Rent | None:
    """The cheapest way to rent ``gpus`` of a GPU in hosts of ``gpus_per_node`` or more; None where no price is known.

    A stale price counts only if there is no fresh one, and hosts with fewer only if there are no others: single GPUs are not
    linked as those of a node are.
    """
    priced = [
        (instance, instance.usd_per_hour) for instance in instances if instance.gpu == gpu and instance.usd_per_hour is not None
    ]
    full_nodes = [(instance, usd) for instance, usd in priced if instance.count >= gpus_per_node]
    rents = [Rent(instance, count := math.ceil(gpus / instance.count), count * usd) for instance, usd in full_nodes or priced]
    return min(rents, key=lambda rent: (rent.is_stale, rent.usd_per_hour), default=None)


def price_notes(rents: Sequence[Rent | None]) -> list[str]:
    """What is to be said of prices that are old."""
    return stale_note({rent.instance.offer: rent.instance for rent in rents if rent is not None}.values())
