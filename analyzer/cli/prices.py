"""``epochcast prices``: the instances that can be recommended, what they cost, and newer prices from a list."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import click
import pandas as pd
from pydantic import TypeAdapter

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.group import Group
from epochcast.analyzer.cli.shared_options import gpus_option, json_option, prices_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.prices import (
    OF_SKYPILOT,
    Instance,
    download_price_list,
    instances_of,
    is_address,
    load_instances,
    read_price_list,
    stale_note,
    write_instances,
)
from epochcast.analyzer.tables import table
from epochcast.analyzer.words import count
from epochcast.regressor import Catalog, load_catalog

_HEADER = ("instance", "cloud", "region", "GPU", "on demand per hour", "spot per hour", "vCPUs", "host GiB", "priced")


@click.group(cls=Group)
def prices() -> None:
    """List instances and their prices, and bring them up to date."""


@prices.command(name="list")
@prices_option
@click.option("--gpu", metavar="NAME", help="List only instances with this GPU.")
@gpus_option
@json_option
def list_prices(prices: Path | None, gpu: str | None, gpus: Path | None, as_json: bool) -> int:
    """List instances, their prices and how old the prices are. Exits 1 if none has the GPU.

    \b
    Example: epochcast prices list --gpu T4
    """
    catalog = load_catalog(gpus)
    instances, notes = load_instances(prices, catalog)
    if gpu is not None:
        name = catalog.resolve(gpu).name
        instances = [instance for instance in instances if instance.gpu == name]
    terminal.notes([*notes, *stale_note(instances)])
    if as_json:
        click.echo(json.dumps({"prices": TypeAdapter(list[Instance]).dump_python(list(instances), mode="json")}, indent=2))
    elif instances:
        terminal.say(table(_HEADER, [_row(instance) for instance in instances]))
    else:
        terminal.note(f"no instance of the price table has the {name}")
    return 0 if instances else 1


def _row(instance: Instance) -> tuple[str, ...]:
    usd, spot = ("-" if price is None else f"${price:,.3f}" for price in (instance.usd_per_hour, instance.spot_usd_per_hour))
    return (
        instance.name,
        instance.cloud,
        instance.region,
        instance.gpu if instance.count == 1 else f"{instance.count} x {instance.gpu}",
        usd,
        spot,
        "-" if instance.vcpus is None else f"{instance.vcpus:g}",
        "-" if instance.memory is None else f"{instance.memory / 2**30:g}",
        f"{instance.date}{', stale' * instance.is_stale}",
    )


@prices.command(name="update", short_help="Bring a price table up to date.")
@click.option(
    "--from", "source", required=True, metavar="FILE|URL", help="Price list (CSV): a SkyPilot vms.csv, or a table like ours."
)
@click.option("--cloud", metavar="NAME", help="Whose list it is, by SkyPilot's name: aws, azure, gcp, lambda.")
@click.option(
    "--date",
    "day",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="YYYY-MM-DD",
    help="Day a SkyPilot file was downloaded; the list does not hold it.",
)
@gpus_option
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Price table (CSV) to write or update."
)
def update_prices(source: str, cloud: str | None, day: datetime | None, gpus: Path | None, out: Path) -> int:
    """Put a newer price list into a price table.

    The list is the SkyPilot catalog's (catalogs/vN/CLOUD/vms.csv in github.com/skypilot-org/skypilot-catalog), or a provider's
    own, in the format of our price table. The rows of its clouds are replaced, and those of other clouds stay. An address
    must be https. If anything fails, the price table stays as it was.

    \b
    Example: epochcast prices update --from vms.csv --cloud aws \\
                 --date 2026-11-01 --out prices.csv
             epochcast prices update --from https://example.com/prices.csv \\
                 --out prices.csv
    """
    catalog = load_catalog(gpus)
    read = download_price_list(source) if is_address(source) else read_price_list(Path(source))
    if set(read.columns) >= OF_SKYPILOT:
        instances, notes = _read_skypilot(read, source, catalog, cloud, None if day is None else day.date())
    elif cloud is not None or day is not None:
        raise InputError(f"--cloud and --date are for a list of SkyPilot; in {source} each row has its own")
    else:
        instances, notes = instances_of(read, source, catalog)
    clouds = {instance.cloud for instance in instances}
    before = instances_of(read_price_list(out), str(out), catalog, to_update=True)[0] if out.exists() else []
    kept = [instance for instance in before if instance.cloud not in clouds]
    write_instances(out, [*kept, *instances])
    terminal.notes(notes)
    old, new = (
        {each.offer: (each.usd_per_hour, each.spot_usd_per_hour) for each in some if each.cloud in clouds}
        for some in (before, instances)
    )
    changed = sum(prices != old[offer] for offer, prices in new.items() if offer in old)
    beside = f", plus {len(kept)} of other clouds" if kept else ""
    terminal.say(
        f"{out}: {count(len(instances), 'price')} of {', '.join(sorted(clouds))}{beside} "
        f"({len(new.keys() - old)} added, {len(old.keys() - new)} removed, {changed} changed)"
    )
    return 0


def _read_skypilot(
    read: pd.DataFrame, source: str, catalog: Catalog, cloud: str | None, day: date | None
) -> tuple[list[Instance], list[str]]:
    from epochcast.analyzer.jobs.skypilot import CLOUDS, read_skypilot_catalog

    if cloud not in CLOUDS.split(", "):
        said = "is missing" if cloud is None else f"is {cloud!r}"
        raise InputError(f"--cloud {said}; name whose list it is, one of SkyPilot's clouds: {CLOUDS}")
    if day is None and not is_address(source):
        raise InputError(f"{source} does not say how old its prices are; give the day it was downloaded: --date YYYY-MM-DD")
    if day is not None and day > date.today():
        raise InputError(f"--date is {day}, after today; give the day on which the list was downloaded")
    origin = source if is_address(source) else f"skypilot-org/skypilot-catalog:{cloud}/vms.csv"
    return read_skypilot_catalog(read, source, cloud, catalog, source=origin, day=day or date.today())
