"""What a newer price list adds to a price table, removes and changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from epochcast.analyzer.jobs.prices.instance import Instance


@dataclass(frozen=True)
class PriceUpdate:
    """What a list makes of a price table.

    Attributes:
        instances: of the list; they take the place of all that the table had of their clouds.
        kept: of the table, of other clouds.
        added, removed: offers that only the list, or only the table had.
        changed: (before, after) where a price or the host differs; a newer date or source alone is no change.
    """

    instances: tuple[Instance, ...]
    kept: tuple[Instance, ...]
    added: tuple[Instance, ...]
    removed: tuple[Instance, ...]
    changed: tuple[tuple[Instance, Instance], ...]

    @property
    def unchanged(self) -> int:
        """How many offers cost what they did."""
        return len(self.instances) - len(self.added) - len(self.changed)


def price_update(table: Sequence[Instance], instances: Sequence[Instance]) -> PriceUpdate:
    """Put the instances of a list into a price table, in place of what it has of the same clouds."""
    clouds = {instance.cloud for instance in instances}
    before = {instance.offer: instance for instance in table if instance.cloud in clouds}
    offers = {instance.offer for instance in instances}
    pairs = [(before[instance.offer], instance) for instance in instances if instance.offer in before]
    return PriceUpdate(
        tuple(instances),
        tuple(instance for instance in table if instance.cloud not in clouds),
        tuple(instance for instance in instances if instance.offer not in before),
        tuple(instance for offer, instance in before.items() if offer not in offers),
        tuple(pair for pair in pairs if _facts(pair[0]) != _facts(pair[1])),
    )


def _facts(instance: Instance) -> tuple[float | None, ...]:
    return instance.usd_per_hour, instance.spot_usd_per_hour, instance.vcpus, instance.memory
