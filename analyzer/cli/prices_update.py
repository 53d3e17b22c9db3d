"""``epochcast prices update``: newer prices from a file or an address, with what they change."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.shared_options import gpus_option, json_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import Instance, price_age
from epochcast.analyzer.jobs.prices.price_list import PriceList, download_price_list, is_address, read_price_list
from epochcast.analyzer.jobs.prices.price_table import instances_of, load_to_update, write_instances
from epochcast.analyzer.jobs.prices.price_update import PriceUpdate, price_update
from epochcast.analyzer.jobs.prices.skypilot_catalog import read_skypilot_catalog
from epochcast.analyzer.jobs.prices.skypilot_names import CLOUDS
from epochcast.analyzer.words import count
from epochcast.regressor import Catalog, load_catalog

_MOST_LINES = 20  # of each kind of change; --json has all


@click.command(name="update", short_help="Bring a price table up to date, and show what changes.")
@click.option(
    "--from", "source", required=True, metavar="FILE|URL", help="Price list (CSV): a SkyPilot vms.csv, or a table like ours."
)
@click.option("--cloud", metavar="NAME", help="Whose list it is, by SkyPilot's name: aws, azure, gcp, lambda.")
@click.option("--source", "origin", metavar="TEXT", help="Origin of a SkyPilot list, such as a commit.")
@click.option("--date", "day", metavar="YYYY-MM-DD", help="Day a SkyPilot file was downloaded; the list does not hold it.")
@gpus_option
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Price table (CSV) to write or update."
)
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
@json_option
def update_prices(source: str, gpus: Path | None, out: Path, dry_run: bool, as_json: bool, **given: Any) -> int:
    """Put a newer price list into a price table, and show what that adds, removes and changes.

    The list is the SkyPilot catalog's (catalogs/vN/CLOUD/vms.csv in github.com/skypilot-org/skypilot-catalog), or a provider's
    own, in the format of our price table. The rows of its clouds are replaced, and those of other clouds stay. An address
    must be https. If anything fails, the price table stays as it was.

    \b
    Example: epochcast prices update --from vms.csv --cloud aws \\
                 --date 2026-11-01 --out prices.csv
             epochcast prices update --from https://example.com/prices.csv \\
                 --out prices.csv --dry-run
    """
    catalog = load_catalog(gpus)
    prices = download_price_list(source) if is_address(source) else read_price_list(Path(source))
    instances, notes = _of_skypilot(prices, catalog, **given) if prices.is_of_skypilot else _of_ours(prices, catalog, **given)
    update = price_update(load_to_update(out, catalog) if out.exists() else [], instances)
    if not as_json:
        _show(update)
    if not dry_run:
        write_instances(out, [*update.kept, *update.instances])
    for note in notes:
        terminal.note(note)
    if as_json:
        click.echo(json.dumps(_json(update, notes, written=not dry_run), indent=2))
    else:
        terminal.say(f"{out}: {_summary(update)}{'; nothing was written (--dry-run)' * dry_run}")
    return 0


def _of_skypilot(
    prices: PriceList, catalog: Catalog, *, cloud: str | None, day: str | None, origin: str | None
) -> tuple[list[Instance], list[str]]:
    cloud = (cloud or "").strip().lower()
    if cloud not in CLOUDS:
        raise InputError(f"--cloud is {cloud!r}; name whose list it is, one of SkyPilot's clouds: {', '.join(CLOUDS)}")
    downloaded = is_address(prices.name)
    if day is None and not downloaded:
        raise InputError(
            f"{prices.name} does not say how old its prices are; give the day it was downloaded: --date YYYY-MM-DD"
        )
    seen = price_age.today() if day is None else _past(day)
    of_list = prices.name if downloaded else f"skypilot-org/skypilot-catalog:{cloud}/vms.csv"
    text = f"{of_list}{f' ({origin})' if origin else ''}"
    return read_skypilot_catalog(prices, cloud, catalog, source=text, day=seen)


def _of_ours(prices: PriceList, catalog: Catalog, **of_skypilot: str | None) -> tuple[list[Instance], list[str]]:
    instances, notes = instances_of(prices, catalog)
    for name, value in of_skypilot.items():
        if value is not None:
            option = {"day": "date", "origin": "source"}.get(name, name)
            raise InputError(f"--{option} is for a list of SkyPilot; in {prices.name} each row has its own {option}")
    return instances, notes


def _past(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--date is {text!r}; write it as YYYY-MM-DD") from None
    if day > price_age.today():
        raise InputError(f"--date is {text}, after today; give the day on which the list was downloaded")
    return day


def _show(update: PriceUpdate) -> None:
    for what, lines in (
        ("added", [f"{_name(one)}: {_price(one)}" for one in update.added]),
        ("removed", [f"{_name(one)}: {_price(one)}" for one in update.removed]),
        ("changed", [f"{_name(new)}: {_price(old)} -> {_price(new)}" for old, new in update.changed]),
    ):
        for line in lines[:_MOST_LINES]:
            terminal.say(f"{what:7}  {line}")
        if len(lines) > _MOST_LINES:
            terminal.say(f"{what:7}  {len(lines) - _MOST_LINES} more (--json lists all)")


def _name(instance: Instance) -> str:
    gpus = instance.gpu if instance.count == 1 else f"{instance.count} x {instance.gpu}"
    return f"{instance.name} ({instance.cloud}, {instance.region}, {gpus})"


def _price(instance: Instance) -> str:
    known = ((instance.usd_per_hour, ""), (instance.spot_usd_per_hour, "spot "))
    return ", ".join(f"{market}${usd:,.3f}" for usd, market in known if usd is not None)


def _summary(update: PriceUpdate) -> str:
    """How many prices, of which clouds, where, beside what, and what became of them."""
    clouds, regions, gpus = (
        sorted({getattr(instance, name) for instance in update.instances}) for name in ("cloud", "region", "gpu")
    )
    places = regions[0] if len(regions) == 1 else f"{len(regions)} regions"
    kept = f", plus {len(update.kept)} of other clouds" if update.kept else ""
    changes = (
        f"{len(update.added)} added, {len(update.removed)} removed, {len(update.changed)} changed, {update.unchanged} unchanged"
    )
    return f"{count(len(update.instances), 'price')} of {', '.join(clouds)} in {places}{kept}; {', '.join(gpus)} ({changes})"


def _json(update: PriceUpdate, notes: Sequence[str], *, written: bool) -> dict[str, Any]:
    return {
        "instances": len(update.instances),
        "regions": sorted({instance.region for instance in update.instances}),
        "gpus": sorted({instance.gpu for instance in update.instances}),
        "kept": len(update.kept),
        "notes": notes,
        "added": [_offer(instance) for instance in update.added],
        "removed": [_offer(instance) for instance in update.removed],
        "changed": [{**_offer(new), "before": _prices(old)} for old, new in update.changed],
        "unchanged": update.unchanged,
        "written": written,
    }


def _offer(instance: Instance) -> dict[str, Any]:
    return {**instance.place, "gpu_count": instance.count, **_prices(instance)}


def _prices(instance: Instance) -> dict[str, Any]:
    return {
        "usd_per_hour": instance.usd_per_hour,
        "spot_usd_per_hour": instance.spot_usd_per_hour,
        "price_date": instance.date.isoformat(),
    }
