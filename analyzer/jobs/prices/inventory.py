"""What a provider has free now, and what it costs him: a CSV of his own, read again when it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices.instance import Instance, Offer
from epochcast.analyzer.jobs.prices.price_list import read_price_list
from epochcast.analyzer.jobs.prices.price_table import checked_instance

_REQUIRED = ("instance", "region", "free")


def load_inventory(path: Path, instances: Sequence[Instance]) -> tuple[list[Instance], dict[Offer, int]]:
    """The instances at the provider's own cost, and how many of each offer are free; what the file lacks is not to be had.

    The file has the columns instance, region and free, and where the price table's price is not the provider's own cost
    usd_per_hour. Raises InputError, one sentence, for a file that cannot be used.
    """
    table = read_price_list(path)
    if missing := [column for column in _REQUIRED if column not in table.columns]:
        raise InputError(f"{str(path)!r} lacks the columns {', '.join(missing)}; an inventory needs {', '.join(_REQUIRED)}")
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
