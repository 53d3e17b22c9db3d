"""Instances and what they cost per hour: the shipped table (``prices.csv``) and the user's own file of the same columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter, ValidationError

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import price_age
from epochcast.analyzer.jobs.prices.instance import Instance, Offer
from epochcast.analyzer.jobs.prices.price_list import OF_SKYPILOT, read_price_list
from epochcast.analyzer.plugins.question import sentence
from epochcast.common.files import write_whole
from epochcast.regressor import Catalog
from epochcast.regressor.errors import InputError as UnknownGpu

REQUIRED = ("cloud", "instance", "gpu", "count", "region", "usd_per_hour", "source", "date")
OPTIONAL = ("spot_usd_per_hour", "vcpus", "memory_gib")


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
    table: pd.DataFrame, name: str, catalog: Catalog, *, checks_dates: bool = True
) -> tuple[list[Instance], list[str]]:
    """The same of a list in our format that is at hand; without ``checks_dates`` a date may lie in the future."""
    instances, unknown = _load(table, name, catalog, price_age.today() if checks_dates else None)
    notes = _unknown_note(unknown, name)
    if not instances:
        raise InputError(f"{name} has no row with a GPU of the catalogue{''.join(f': {note}' for note in notes)}")
    return instances, notes


def load_to_update(path: Path, catalog: Catalog) -> Sequence[Instance]:
    """Instances of a file that is to be written again; InputError if that would lose a row, whose GPU the catalogue lacks."""
    instances, unknown = _load(read_price_list(path), str(path), catalog, price_age.today())
    if unknown:
        raise InputError(
            f"{path} has rows for GPUs that the catalogue does not know or cannot tell apart ({counted(unknown)}), and would "
            "lose them; name these GPUs by --gpus FILE, or write another file"
        )
    return instances


def _load(table: pd.DataFrame, name: str, catalog: Catalog, today: date | None) -> tuple[list[Instance], Counter[str]]:
    """The instances of a price table, and how often it names which GPU that the catalogue does not know."""
    if set(table.columns) >= OF_SKYPILOT:
        raise InputError(
            f"{name} is a price list of SkyPilot, which has its own format; make a price table from it first: "
            "epochcast prices update --from VMS.csv --cloud NAME --date YYYY-MM-DD --out FILE"
        )
    if missing := [column for column in REQUIRED if column not in table.columns]:
        raise InputError(f"{name} lacks the columns {', '.join(missing)}; it needs {', '.join(REQUIRED)}")
    table = table.reindex(columns=[*REQUIRED, *OPTIONAL], fill_value="")
    instances: list[Instance] = []
    unknown: Counter[str] = Counter()
    rows: dict[Offer, int] = {}
    for number, row in enumerate(table.to_dict("records"), start=1):
        if not row["gpu"]:
            raise InputError(f"row {number} of {name} has no gpu; name its GPU (`epochcast gpus` lists them)")
        try:
            gpu = catalog.resolve(row["gpu"]).name
        except UnknownGpu:
            unknown[row["gpu"]] += 1
            continue
        instance = _instance(row, gpu, f"row {number} of {name}", today)
        if (first := rows.setdefault(instance.offer, number)) != number:
            raise InputError(
                f"rows {first} and {number} of {name} are both {instance.name} of {instance.cloud} in {instance.region} with "
                f"{instance.count} {gpu}; keep one"
            )
        instances.append(instance)
    return instances, unknown


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


_INSTANCE = TypeAdapter(Instance)


def checked_instance(cells: Mapping[str, Any], where: str) -> Instance:
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


def _instance(row: Mapping[Hashable, str], gpu: str, where: str, today: date | None) -> Instance:
    gib = row["memory_gib"]
    try:
        memory = float(gib) * 2**30 if gib else ""
    except ValueError:
        raise InputError(f"{where}: memory_gib is {gib!r}; write GiB as a number above 0, or leave it empty") from None
    own = {"name": row["instance"], "gpu": gpu, "memory": memory, "usd_per_hour": row["usd_per_hour"] or None}
    cells = {str(name): cell for name, cell in row.items() if name not in ("instance", "memory_gib")}
    instance = checked_instance(cells | own, where)
    if today is not None and instance.date > today + timedelta(days=1):  # a day of grace for time zones
        raise InputError(f"{where}: date is {instance.date}, after today ({today}); give the day on which the price was seen")
    return instance


def _unknown_note(unknown: Counter[str], name: str) -> list[str]:
    if not unknown:
        return []
    many = unknown.total()
    rows = f"{many} rows of {name} are" if many > 1 else f"1 row of {name} is"
    return [
        f"{rows} skipped for GPUs that the catalogue does not know, or not by one name: {counted(unknown)} "
        "(`epochcast gpus` lists the names; a GPU of your own: --gpus FILE)"
    ]


def counted(names: Counter[str]) -> str:
    """``TPU v5e (2), Gaudi 2 (1)``: names with how often they occur, most frequent first, at most ten of them."""
    text = ", ".join(f"{name} ({many})" for name, many in names.most_common(10))
    return f"{text} and {len(names) - 10} more" if len(names) > 10 else text
