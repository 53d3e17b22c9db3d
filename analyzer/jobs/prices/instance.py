"""One instance of a cloud, and what an hour of it costs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

Market = Literal["on-demand", "spot"]


def _plain(cell: Any) -> Any:
    """Raises ValueError for ``1_5``, which is Python's 15, and a slip for 1.5."""
    if isinstance(cell, str) and "_" in cell:
        raise ValueError("write a plain number")
    return cell


def _day(cell: Any) -> Any:
    """Raises ValueError for what is no day: a number would be unix time to pydantic."""
    if not isinstance(cell, str):
        return cell
    try:
        return date.fromisoformat(cell)
    except ValueError:
        raise ValueError("write it as YYYY-MM-DD") from None


# Beyond, a typing error; and no cost may come out as 0, or as what JSON cannot hold (infinity).
Usd = Annotated[float | None, Field(ge=1e-6, lt=1e6), BeforeValidator(_plain)]
Vcpus = Annotated[float | None, Field(ge=1e-3, lt=1e5), BeforeValidator(_plain)]

Offer = tuple[str, str, str, str, int]
"""What one row of a price table is about: cloud, name, region, GPU and their count."""


@dataclass(frozen=True)
class Instance:
    """One kind of instance in one region: ``count`` GPUs of one kind at a price per hour, as ``source`` said on ``date``.

    Attributes:
        cloud, name, region: as the cloud calls them; region ``any`` where the price is the same everywhere.
        gpu: catalogue name.
        count: how many of these GPUs; the instance is priced whole.
        usd_per_hour: on demand; None where only spot is known.
        source, date: who published the price, checkable, and when.
        spot_usd_per_hour: spot (preemptible) price of that date; None where not known.
        vcpus: of the host; None where not known.
        memory: of the host [bytes]; None where not known.
    """

    cloud: str
    name: str
    gpu: str
    count: Annotated[int, Field(ge=1, lt=1e5), BeforeValidator(_plain)]
    region: str
    usd_per_hour: Usd
    source: str
    date: Annotated[date, BeforeValidator(_day)]
    spot_usd_per_hour: Usd = None
    vcpus: Vcpus = None
    memory: Annotated[float | None, Field(ge=2**20, lt=2**50)] = None

    @property
    def place(self) -> dict[str, str]:
        """Its identity among all instances: a name alone does not, as Google's hosts take any GPU."""
        return {"instance": self.name, "cloud": self.cloud, "region": self.region, "gpu": self.gpu}

    @property
    def offer(self) -> Offer:
        """What it is the price of; a price table has each once."""
        return self.cloud, self.name, self.region, self.gpu, self.count

    def price(self, market: Market) -> float | None:
        """USD per hour in that market; None where it is not known."""
        return self.usd_per_hour if market == "on-demand" else self.spot_usd_per_hour
