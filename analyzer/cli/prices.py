"""``epochcast prices``: the instances that can be recommended and what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click

from ...regressor import load_catalog
from ..errors import InputError
from ..instances import Instance, load_instances, load_to_update, stale, write_instances
from ..instances.skypilot_catalog import read_skypilot_catalog
from ..instances.skypilot_names import CLOUDS
from ..tables import table
from . import terminal
from .group import Group
from .shared_options import gpus_option, json_option

_HEADER = ("instance", "cloud", "region", "gpu", "per hour", "spot per hour", "vCPUs", "memory GiB", "days old")


@click.group(cls=Group)
def prices() -> None:
    """List instances and their prices, and import newer prices."""


@prices.command(name="list")
@click.option(
    "--prices",
    "path",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Your own price table (CSV) instead of the built-in one.",
)
@click.option("--gpu", metavar="NAME", help="List only instances with this GPU.")
@gpus_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with each price's source.")
def list_prices(path: Path | None, gpu: str | None, gpus: Path | None, as_json: bool) -> int:
    """List instances, their prices and how old the prices are. Exits 1 if none has the GPU.

    \b
    Example: epochcast prices list --gpu T4
    """
    catalog, today = load_catalog(gpus), date.today()
    instances, notes = load_instances(path, catalog)
    if gpu is not None:
        name = catalog.resolve(gpu).name
        instances = [instance for instance in instances if instance.gpu == name]
    _tell([*notes, *filter(None, [stale(instances, today)])])
    if as_json:
        click.echo(json.dumps({"prices": [_json(instance, today) for instance in instances]}, indent=2))
    elif instances:
        terminal.say(table(_HEADER, [_row(instance, today) for instance in instances]))
    else:
        terminal.note(f"no instance of the price table has the {name}")
    return 0 if instances else 1


@prices.command(name="import", short_help="Turn a SkyPilot price list into a price table.")
@click.argument("vms", type=click.Path(path_type=Path), metavar="VMS.csv")
@click.option(
    "--cloud", required=True, metavar="NAME", help="Cloud of the list, by SkyPilot's name: aws, azure, gcp, lambda, ..."
)
@click.option("--region", "regions", multiple=True, metavar="NAME", help="Import only this region (repeatable). [default: all]")
@click.option(
    "--date", "day", required=True, metavar="YYYY-MM-DD", help="Day the list was downloaded; the list does not hold it."
)
@click.option("--source", metavar="TEXT", help="Origin of the list, such as a commit. [default: the SkyPilot catalog]")
@gpus_option
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="Price table (CSV) to write or update."
)
@json_option
def import_prices(
    vms: Path, cloud: str, regions: tuple[str, ...], day: str, source: str | None, gpus: Path | None, out: Path, as_json: bool
) -> int:
    """Turn a price list of the SkyPilot catalog into a price table for `epochcast recommend --prices`.

    The lists are catalogs/vN/CLOUD/vms.csv in github.com/skypilot-org/skypilot-catalog. If the price table exists, the rows of
    this cloud are replaced and those of other clouds stay, so that several imports make one table.

    \b
    Example: epochcast prices import vms.csv --cloud aws --region us-east-1 \\
                 --date 2026-11-01 --out prices.csv
    """
    catalog, cloud = load_catalog(gpus), cloud.strip().lower()
    if cloud not in CLOUDS:
        raise InputError(f"--cloud is {cloud!r}; name whose list it is, one of SkyPilot's clouds: {', '.join(CLOUDS)}")
    origin = f"skypilot-org/skypilot-catalog:{cloud}/vms.csv{f' ({source})' if source else ''}"
    seen = _past(day)
    imported, notes = read_skypilot_catalog(vms, cloud, catalog, source=origin, day=seen, regions=regions)
    kept = [instance for instance in load_to_update(out, catalog) if instance.cloud != cloud] if out.exists() else []
    write_instances(out, [*kept, *imported])
    _tell(notes)
    imported_regions, imported_gpus = (
        sorted({instance.region for instance in imported}),
        sorted({instance.gpu for instance in imported}),
    )
    if as_json:
        answer = {
            "instances": len(imported),
            "regions": imported_regions,
            "gpus": imported_gpus,
            "kept": len(kept),
            "notes": notes,
        }
        click.echo(json.dumps(answer, indent=2))
        return 0
    kept_text = f", plus {len(kept)} of other clouds" if kept else ""
    places = imported_regions[0] if len(imported_regions) == 1 else f"{len(imported_regions)} regions"
    prices_text = f"{len(imported)} price{'s' * (len(imported) > 1)}"
    terminal.say(f"{out}: {prices_text} of {cloud} in {places}{kept_text}; {', '.join(imported_gpus)}")
    return 0


def _past(text: str) -> date:
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise InputError(f"--date is {text!r}; write it as YYYY-MM-DD") from None
    if day > date.today():
        raise InputError(f"--date is {text}, in the future; give the day on which the list was downloaded")
    return day


def _tell(notes: Sequence[str]) -> None:
    for sentence in notes:
        terminal.note(sentence)


def _row(instance: Instance, today: date) -> tuple[str, ...]:
    return (
        instance.name,
        instance.cloud,
        instance.region,
        instance.gpu if instance.count == 1 else f"{instance.count} x {instance.gpu}",
        _price(instance.usd_per_hour),
        _price(instance.spot_usd_per_hour),
        _number(instance.vcpus, "g"),
        _number(None if instance.memory is None else instance.memory / 2**30, "g"),
        str((today - instance.date).days),
    )


def _price(usd: float | None) -> str:
    return "-" if usd is None else f"${usd:,.3f}"


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _json(instance: Instance, today: date) -> dict[str, Any]:
    return {
        "instance": instance.name,
        "cloud": instance.cloud,
        "region": instance.region,
        "gpu": instance.gpu,
        "gpu_count": instance.count,
        "usd_per_hour": instance.usd_per_hour,
        "spot_usd_per_hour": instance.spot_usd_per_hour,
        "vcpus": instance.vcpus,
        "host_memory_bytes": instance.memory,
        "price_source": instance.source,
        "price_date": instance.date.isoformat(),
        "age_days": (today - instance.date).days,
    }
