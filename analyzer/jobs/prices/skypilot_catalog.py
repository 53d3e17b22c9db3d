"""Instances from the SkyPilot catalog, the best-kept public price list: one ``vms.csv`` per cloud.

github.com/skypilot-org/skypilot-catalog, ``catalogs/vN/CLOUD/vms.csv``. Its columns are InstanceType, AcceleratorName,
AcceleratorCount, vCPUs, MemoryGiB, Price, SpotPrice, Region and AvailabilityZone; both prices are USD per hour of the whole
instance, except on Google Cloud (see `skypilot_names`). One row is one zone.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from statistics import median_low

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices.instance import Instance
from epochcast.analyzer.jobs.prices.price_list import PriceList
from epochcast.analyzer.jobs.prices.price_table import checked_instance, counted
from epochcast.analyzer.jobs.prices.skypilot_names import accelerators_of, gpu_name
from epochcast.regressor import Catalog

_REQUIRED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
_OPTIONAL = ("SpotPrice", "vCPUs", "MemoryGiB", "AvailabilityZone")
# An A10 of Azure is also rented out by the sixth, third and half, with the vCPUs in proportion; some states of the catalog
# count these fractions as whole GPUs.
_AZURE_VCPUS_PER_A10 = 36
_WIDEST_SPREAD = 2

_UNKNOWN = "for accelerators that the GPU catalogue does not know or cannot tell apart"
_FRACTION = "for fractions of a GPU"
_UNPRICED = "without a price"
_NO_HOST = "for GPUs without a host in their zone"
_DEARER_SPOT = "with spot above on demand, so that one of the two must be wrong"


@dataclass(frozen=True)
class _Row:
    """One row of the file, or a host with its GPUs; ``number`` is that of the row, from 1."""

    number: int
    name: str
    accelerator: str
    count: str
    vcpus: float | None
    memory_gib: float | None
    usd: float | None
    spot: float | None
    region: str
    zone: str


def read_skypilot_catalog(
    prices: PriceList, cloud: str, catalog: Catalog, *, source: str, day: date
) -> tuple[list[Instance], list[str]]:
    """Instances of a ``vms.csv``, and a sentence for each kind of row skipped.

    ``cloud`` is SkyPilot's name of it (aws, azure, gcp, lambda, ...); ``source`` and ``day`` say where and when the file was
    got, as it says neither. A region's price is the (lower) median of its zones': on demand they agree, and the cheapest spot
    price is often that of a place without capacity, as of AWS's local zones. A price of 0 is read as unknown.

    Raises InputError if the file is no such list, or holds no GPU of the catalogue.
    """
    name, rows = prices.name, list(_rows(prices))
    warnings = _spread_note(
        [row for row in rows if row.accelerator and gpu_name(cloud, row.name, row.accelerator, catalog)], name
    )
    skipped: defaultdict[str, Counter[str]] = defaultdict(Counter)
    if cloud == "gcp":
        rows = _with_hosts(rows, catalog, skipped)
    if nameless := next((row for row in rows if row.accelerator and not (row.name and row.region)), None):
        raise InputError(
            f"row {nameless.number} of {name} has no InstanceType or no Region; read Google Cloud's list, whose GPU rows have "
            "none, with --cloud gcp"
        )
    zones: defaultdict[tuple[str, str, int, str], list[Instance]] = defaultdict(list)
    for row in rows:
        instance = _instance(row, cloud, catalog, source, day, skipped) if row.accelerator else None
        if instance is not None:
            zones[instance.name, instance.gpu, instance.count, instance.region].append(instance)
    notes = [f"rows of {name} skipped {why}: {counted(names)}" for why, names in skipped.items()]
    if not zones:
        raise InputError(f"{name} has no price of a GPU of the catalogue{''.join(f'; {note}' for note in notes)}")
    instances = [_region(offers) for offers in zones.values()]
    instances.sort(key=lambda instance: (instance.gpu, instance.count, instance.name, instance.region))
    return instances, [*notes, *warnings]


def _rows(prices: PriceList) -> Iterator[_Row]:
    name, table = prices.name, prices.table
    if missing := [column for column in _REQUIRED if column not in table.columns]:
        raise InputError(
            f"{name} lacks the columns {', '.join(missing)}; it must be a vms.csv of the SkyPilot catalog "
            "(github.com/skypilot-org/skypilot-catalog)"
        )
    table = table.assign(**{column: "" for column in _OPTIONAL if column not in table.columns})
    for number, cells in enumerate(table.to_dict("records"), start=1):
        where = f"of row {number} of {name}"
        yield _Row(
            number=number,
            name=cells["InstanceType"],
            accelerator=cells["AcceleratorName"],
            count=cells["AcceleratorCount"],
            vcpus=_number(cells["vCPUs"], f"vCPUs {where}"),
            memory_gib=_number(cells["MemoryGiB"], f"MemoryGiB {where}"),
            usd=_number(cells["Price"], f"Price {where}"),
            spot=_number(cells["SpotPrice"], f"SpotPrice {where}"),
            region=cells["Region"],
            zone=cells["AvailabilityZone"],
        )


def _number(text: str, what: str) -> float | None:
    """None for an empty cell, and for 0, which people fill in where the cloud publishes none (its pull request 50)."""
    try:
        value = math.nan if "_" in text else float(text or 0)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"{what} is {text!r}; write a plain number above 0, or leave it empty")
    return value or None


def _spread_note(rows: Iterable[_Row], name: str) -> list[str]:
    """A sentence about GPUs whose on-demand price cannot be one everywhere; regions differ by a third, seldom by half."""
    by_offer: defaultdict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row.usd is not None:
            by_offer[row.name, row.accelerator, row.count].append(row.usd)
    wide = sorted({offer[1] for offer, usd in by_offer.items() if max(usd) > _WIDEST_SPREAD * min(usd)})
    if not wide:
        return []
    return [
        f"on-demand prices of {', '.join(wide)} differ more than {_WIDEST_SPREAD}-fold between regions of {name}, so some may "
        "be of another kind, such as reserved; check the prices you rely on against the cloud's own page"
    ]


def _with_hosts(rows: Iterable[_Row], catalog: Catalog, skipped: defaultdict[str, Counter[str]]) -> list[_Row]:
    """Google Cloud's hosts, each with the GPUs of its zone, at the sum of both prices (spot: of both spot prices)."""
    rows = list(rows)
    gpus = {}
    for row in rows:
        if row.accelerator and not row.name:
            # Here and not for the sum, in which the host's price would hide it.
            if _is_spot_dearer(row):
                skipped[_DEARER_SPOT][row.accelerator] += 1
            else:
                gpus[row.accelerator, _integer(row.count), row.region, row.zone] = row
    used: set[tuple[str, int | None, str, str]] = set()
    paired = [row for row in rows if row.accelerator and row.name]
    for host in rows:
        for accelerator, count in [] if host.accelerator else accelerators_of(host.name):
            # The region too: a list without zones would else price every host with the GPU of its last region.
            key: tuple[str, int | None, str, str] = (accelerator, count, host.region, host.zone)
            if key in gpus:
                gpu = gpus[key]
                used.add(key)
                usd, spot = _sum(host.usd, gpu.usd), _sum(host.spot, gpu.spot)
                paired.append(replace(host, accelerator=accelerator, count=gpu.count, usd=usd, spot=spot))
    for key, row in gpus.items():
        if key not in used:
            is_known = gpu_name("gcp", "", row.accelerator, catalog) is not None
            skipped[_NO_HOST if is_known else _UNKNOWN][row.accelerator] += 1
    return paired


def _sum(host: float | None, gpu: float | None) -> float | None:
    # The list has five decimals; a sum of two has no more.
    return None if host is None or gpu is None else round(host + gpu, 5)


def _integer(count: str) -> int | None:
    """``2.0`` as 2; None for a fraction or no number."""
    try:
        value = float(count)
    except ValueError:
        return None
    return int(value) if 1 <= value < 1e5 and value == int(value) else None


def _instance(
    row: _Row, cloud: str, catalog: Catalog, source: str, day: date, skipped: defaultdict[str, Counter[str]]
) -> Instance | None:
    """The instance of a row; None where it is skipped, which ``skipped`` then counts by reason and accelerator."""
    gpu, count = gpu_name(cloud, row.name, row.accelerator, catalog), _integer(row.count)
    is_part = cloud == "azure" and gpu == "A10" and count and row.vcpus and row.vcpus < count * _AZURE_VCPUS_PER_A10
    if gpu is None:
        why = _UNKNOWN
    elif count is None or is_part:
        why = _FRACTION
    elif row.usd is None and row.spot is None:
        why = _UNPRICED
    elif _is_spot_dearer(row):
        why = _DEARER_SPOT
    else:
        memory = None if row.memory_gib is None else row.memory_gib * 2**30
        own = Instance(cloud, row.name, gpu, count, row.region, row.usd, source, day, row.spot, row.vcpus, memory)
        return checked_instance(asdict(own), f"row {row.number}")
    skipped[why][row.accelerator] += 1
    return None


def _is_spot_dearer(row: _Row) -> bool:
    return row.usd is not None and row.spot is not None and row.spot > row.usd


def _region(zones: Sequence[Instance]) -> Instance:
    """One instance for the zones of a region."""
    return replace(
        zones[0],
        usd_per_hour=_median(zone.usd_per_hour for zone in zones),
        spot_usd_per_hour=_median(zone.spot_usd_per_hour for zone in zones),
    )


def _median(prices: Iterable[float | None]) -> float | None:
    known = [price for price in prices if price is not None]
    return median_low(known) if known else None
