"""What can be rented, and what it costs: the shipped table (``prices.csv``), the user's own, and what a provider has free.

What a job is rented on is what its operator says, else its node, else the cheapest that has its GPUs, which is marked so.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import pandas as pd
from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plugins.question import sentence
from epochcast.analyzer.words import count
from epochcast.common.files import write_whole
from epochcast.regressor import Catalog
from epochcast.regressor.errors import InputError as UnknownGpu

if TYPE_CHECKING:
    from epochcast.analyzer.jobs.watched import JobPlan
    from epochcast.analyzer.telemetry.gpu_report import GpuDevice

Market = Literal["on-demand", "spot"]

STALE_DAYS = 365
"""By choice: within a year list prices have fallen by 44 % (AWS' H100 in June 2025), so that an older one says little."""

REQUIRED = ("cloud", "instance", "gpu", "count", "region", "usd_per_hour", "source", "date")
OPTIONAL = ("spot_usd_per_hour", "vcpus", "memory_gib")

OF_SKYPILOT = {"InstanceType", "AcceleratorName"}
"""Columns by which a list is a ``vms.csv`` of the SkyPilot catalog, and no price table of our own format."""

_OF_INVENTORY = ("instance", "region", "free")
_CONTROL = r"[\x00-\x1f\x7f-\x9f]"  # of a name that reaches a terminal, it could hide a line


def today() -> date:
    """The day by which ages count."""
    return date.today()


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

    @property
    def age_days(self) -> int:
        """Days since its price was published."""
        return (today() - self.date).days

    @property
    def is_stale(self) -> bool:
        """Whether its price is older than a year: marked, and never the winner against a fresh one."""
        return self.age_days > STALE_DAYS

    def price(self, market: Market) -> float | None:
        """USD per hour in that market; None where it is not known."""
        return self.usd_per_hour if market == "on-demand" else self.spot_usd_per_hour


_INSTANCE = TypeAdapter(Instance)


def stale_note(instances: Iterable[Instance]) -> list[str]:
    """One sentence if any price is stale: how many, the oldest, what that means and the remedy."""
    known = list(instances)
    old = [instance.date for instance in known if instance.is_stale]
    if not old:
        return []
    are = "is" if len(old) == 1 else "are"
    rank = "and none is newer" if len(old) == len(known) else "and ranked after all newer prices"
    return [
        f"{len(old)} of {count(len(known), 'price')} {are} older than a year (the oldest of {min(old)}), {rank}; renew the "
        "table (epochcast prices update --help) and give it with --prices (setting `prices` of the service)"
    ]


def load_instances(path: Path | None, catalog: Catalog) -> tuple[Sequence[Instance], Sequence[str]]:
    """Instances of the user's file (which replaces the shipped table), and what is to be known about it, a sentence each.

    The file is CSV with the columns cloud, instance, gpu, count, region, usd_per_hour, source and date, and where known
    spot_usd_per_hour, vcpus and memory_gib (of the host); others are ignored. ``gpu`` is any name or alias of the GPU
    catalogue, and one of the two prices may be empty. Rows of GPUs that the catalogue does not know are skipped, counted and
    named; all else that is wrong raises InputError.
    """
    if path is not None:
        return instances_of(read_price_list(path), str(path), catalog)
    with resources.as_file(resources.files(__package__) / "prices.csv") as shipped:
        # The shipped dates are checked by a test: a node whose clock is behind can use them all the same.
        return instances_of(read_price_list(shipped), "the shipped price table", catalog, checks_dates=False)


def instances_of(
    table: pd.DataFrame, name: str, catalog: Catalog, *, checks_dates: bool = True, to_update: bool = False
) -> tuple[list[Instance], list[str]]:
    """The same of a list in our format that is at hand.

    Without ``checks_dates`` a date may lie in the future. A list ``to_update`` is written again: it may be empty, and one of
    whose rows the catalogue lacks the GPU raises InputError, as these would be lost.
    """
    if set(table.columns) >= OF_SKYPILOT:
        raise InputError(
            f"{name} is a price list of SkyPilot, which has its own format; make a price table from it first: "
            "epochcast prices update --from VMS.csv --cloud NAME --date YYYY-MM-DD --out FILE"
        )
    if missing := [column for column in REQUIRED if column not in table.columns]:
        raise InputError(f"{name} lacks the columns {', '.join(missing)}; it needs {', '.join(REQUIRED)}")
    instances, unknown, rows = list[Instance](), Counter[str](), dict[Offer, int]()
    for number, row in enumerate(table.reindex(columns=[*REQUIRED, *OPTIONAL], fill_value="").to_dict("records"), start=1):
        where = f"row {number} of {name}"
        if not row["gpu"]:
            raise InputError(f"{where} has no gpu; name its GPU (`epochcast gpus` lists them)")
        try:
            gpu = catalog.resolve(row["gpu"]).name
        except UnknownGpu:
            unknown[row["gpu"]] += 1
            continue
        instance = _instance({str(column): cell for column, cell in row.items()} | {"gpu": gpu}, where)
        if checks_dates and instance.date > date.today() + timedelta(days=1):  # a day of grace for time zones
            raise InputError(
                f"{where}: date is {instance.date}, after today ({date.today()}); give the day on which the price was seen"
            )
        if (first := rows.setdefault(instance.offer, number)) != number:
            raise InputError(
                f"rows {first} and {number} of {name} are both {instance.name} of {instance.cloud} in {instance.region} with "
                f"{instance.count} {gpu}; keep one"
            )
        instances.append(instance)
    if unknown and to_update:
        raise InputError(
            f"{name} has rows for GPUs that the catalogue does not know or cannot tell apart ({counted(unknown)}), and would "
            "lose them; name these GPUs by --gpus FILE, or write another file"
        )
    many = unknown.total()
    notes = [
        f"{f'{many} rows of {name} are' if many > 1 else f'1 row of {name} is'} skipped for GPUs that the catalogue does not "
        f"know, or not by one name: {counted(unknown)} (`epochcast gpus` lists the names; a GPU of your own: --gpus FILE)"
    ] * bool(unknown)
    if not instances and not to_update:
        raise InputError(f"{name} has no row with a GPU of the catalogue{''.join(f': {note}' for note in notes)}")
    return instances, notes


def _instance(row: dict[str, Any], where: str) -> Instance:
    gib, name = row.pop("memory_gib"), row.pop("instance")
    try:
        memory = float(gib) * 2**30 if gib else ""
    except ValueError:
        raise InputError(f"{where}: memory_gib is {gib!r}; write GiB as a number above 0, or leave it empty") from None
    return checked_instance(row | {"name": name, "memory": memory, "usd_per_hour": row["usd_per_hour"] or None}, where)


def checked_instance(cells: Mapping[Any, Any], where: str) -> Instance:
    """The instance that cells (texts or numbers, by its attributes) describe; those that are empty are not known.

    Raises:
        InputError: one of them is wrong, or there is no price; ``where`` says in which row.
    """
    try:
        instance = _INSTANCE.validate_python({name: value for name, value in cells.items() if value != ""})
    except ValidationError as error:
        raise InputError(f"{where}: {sentence(error, {'name': 'instance', 'memory': 'memory in bytes'})}") from error
    if instance.usd_per_hour is None and instance.spot_usd_per_hour is None:
        raise InputError(f"{where} has no price; fill in usd_per_hour or spot_usd_per_hour, or remove the row")
    return instance


def write_instances(path: Path, instances: Iterable[Instance]) -> Path:
    """Write a price file that :func:`load_instances` reads back as equal instances. Raises InputError if it cannot."""
    table = pd.DataFrame([vars(instance) for instance in instances]).rename(columns={"name": "instance"})
    table["memory_gib"] = table.pop("memory").astype(float) / 2**30
    columns = [column for column in REQUIRED if column not in ("source", "date")] + [*OPTIONAL, "source", "date"]

    def plain(value: object) -> str:  # reads back as the same
        return str(value).removesuffix(".0")

    return write_whole(
        path, lambda file: table.to_csv(file, columns=columns, index=False, lineterminator="\n", float_format=plain)
    )


def load_inventory(path: Path, instances: Sequence[Instance]) -> tuple[list[Instance], dict[Offer, int]]:
    """The instances at the provider's own cost, and how many of each offer are free; what the file lacks is not to be had.

    The file has the columns instance, region and free, and where the price table's price is not the provider's own cost
    usd_per_hour. Raises InputError, one sentence, for a file that cannot be used.
    """
    table = read_price_list(path)
    if missing := [column for column in _OF_INVENTORY if column not in table.columns]:
        raise InputError(f"{str(path)!r} lacks the columns {', '.join(missing)}; an inventory needs {', '.join(_OF_INVENTORY)}")
    kept, free = list(instances), dict[Offer, int]()
    for number, row in enumerate(table.to_dict("records"), start=1):
        where = f"row {number} of {str(path)!r}"
        if not row["free"].isdecimal():
            raise InputError(f"free of {where} is {row['free']!r}; give a whole number of instances, 0 for a full one")
        name, regions = row["instance"], (row["region"], "any")
        places = [place for place, each in enumerate(kept) if each.name == name and each.region in regions]
        if not places:
            raise InputError(
                f"{where} is {name!r} in {row['region']!r}, which the price table does not list; add it to a table of your own "
                "(--prices)"
            )
        for place in places:
            if cost := row.get("usd_per_hour", ""):
                kept[place] = checked_instance(asdict(kept[place]) | {"usd_per_hour": cost, "spot_usd_per_hour": cost}, where)
            free[kept[place].offer] = int(row["free"])
    return kept, free


def counted(names: Counter[str]) -> str:
    """``TPU v5e (2), Gaudi 2 (1)``: names with how often they occur, most frequent first, at most ten of them."""
    text = ", ".join(f"{name} ({many})" for name, many in names.most_common(10))
    return f"{text} and {len(names) - 10} more" if len(names) > 10 else text


def is_address(source: str) -> bool:
    """Whether a price list is to be downloaded."""
    return "://" in source


def read_price_list(path: Path) -> pd.DataFrame:
    """The cells of a CSV file as stripped texts, empty where there is none. Raises InputError if it cannot be read."""
    name = str(path)
    try:
        with path.open("rb") as file:
            return _parsed(file, name)
    except FileNotFoundError:
        raise InputError(f"no such price file: {name!r}") from None
    except OSError as error:
        raise InputError(f"{name!r} is not a readable CSV file: {' '.join(str(error).split())}") from error


def download_price_list(url: str) -> pd.DataFrame:
    """Read what an https address answers (http on this machine alone), within a minute and 64 MiB.

    Raises InputError, one sentence, for another scheme, no answer, one of failure or too large, and for no CSV.
    """
    from epochcast.analyzer.telemetry import TelemetryError
    from epochcast.analyzer.telemetry.endpoint import MOST_BYTES, Endpoint
    from epochcast.analyzer.telemetry.settings import Access
    from epochcast.common.settings_file import is_local

    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or (parts.scheme == "http" and is_local(parts.hostname or ""))
    except ValueError:
        safe = False
    if not safe:
        raise InputError(f"the address is {url!r}; give one that begins with https (http is for this machine alone), or a file")
    server = f"{parts.scheme}://{parts.netloc}"
    endpoint = Endpoint("the price list at", Access(url=server))
    try:
        answer = endpoint.read(url.removeprefix(server).partition("#")[0], most=MOST_BYTES)
    except TelemetryError as error:
        raise InputError(f"{error}; no price was changed") from error
    finally:
        endpoint.close()
    return _parsed(BytesIO(answer), url)


def _parsed(file: IO[bytes], name: str) -> pd.DataFrame:
    try:
        with warnings.catch_warnings():
            # Rows longer than the header would otherwise lose their last cells with no more than a warning.
            warnings.simplefilter("error", pd.errors.ParserWarning)
            # As it is: a damaged archive would raise errors of its own library.
            table = pd.read_csv(file, dtype=str, keep_default_na=False, index_col=False, encoding="utf-8-sig", compression=None)
    except pd.errors.ParserWarning:
        raise InputError(
            f"{name!r} has rows with more cells than its header; separate cells by commas, quote a text that holds one, and "
            "write decimals with a point"
        ) from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{name!r} is empty; the first line of a price list names its columns") from None
    except (UnicodeDecodeError, pd.errors.ParserError) as error:
        raise InputError(f"{name!r} is not a readable CSV file: {' '.join(str(error).split())}") from error
    # Rows shorter than the header have missing values at their end.
    for column in table.columns:
        table[column] = table[column].fillna("").str.strip()
        if len(odd := table[table[column].str.contains(_CONTROL)]):
            raise InputError(f"{column} of row {odd.index[0] + 1} of {name!r} has a line break or another control character")
    return table


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
    name, day = "the present instance", today()
    return Rented(Instance("", name, gpu, gpus, "any", usd_per_hour, "given", day, usd_per_hour), market, assumed=False)


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
        has = {instance.gpu for instance in named}
        why = f"it has {', '.join(sorted(has))} but the job runs on {gpu}" if has else "the price table does not list it"
        if gpu in has:
            why = f"none of that name has {gpu} in {' '.join(filter(None, (cloud, region)))}"
        notes.append(f"the job is reported to run on {name}, but {why}: the cheapest instance with {gpu} is used instead")
    own = [instance for instance in instances if instance.gpu == gpu and math.ceil(gpus / instance.count) <= machines]
    if not own and any(instance.gpu == gpu for instance in instances):
        # The price of as many smaller ones would be far from the true one, and so would what is saved.
        each = math.ceil(gpus / machines)
        where = "the job's node has" if machines == 1 else "each node of the job has"
        why = f"no instance in the price table has {each} {gpu}, as {where}, so its cost now and possible savings are not known"
        return Rented(None, market, assumed=True, notes=(*(note.rpartition(":")[0] for note in notes), why))
    there = _of_place(own, cloud, region)
    if own and not there and not name:
        notes.append(
            f"the job is reported to run on {cloud}, but the price table has no instance for it there: the cheapest with "
            f"{gpu} is used instead"
        )
    cheapest = _cheapest(there, gpus, market) or _cheapest(own, gpus, market)
    instance, taken = cheapest or (None, market)
    share = 1.0 if instance is None else _share(gpus, instance)
    return Rented(instance, taken, assumed=True, notes=tuple(notes), share=share)


def _share(gpus: int, instance: Instance) -> float:
    """Jobs side by side on one machine cost one machine together."""
    return gpus / (instance.count * math.ceil(gpus / instance.count))


def usd_per_hour(gpus: Iterable[str], instances: Sequence[Instance]) -> float | None:
    """What an hour of these GPUs costs, each on the cheapest instance that has it; None where the price table lacks one."""
    prices = [rented(gpu, 1, instances).usd_per_gpu_hour for gpu in gpus]
    return None if None in prices else sum(price for price in prices if price is not None)


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
