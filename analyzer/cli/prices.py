"""``epochcast prices``: the instances that can be recommended and what they cost."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.group import Group
from epochcast.analyzer.cli.prices_update import update_prices
from epochcast.analyzer.cli.shared_options import gpus_option, prices_option
from epochcast.analyzer.jobs.prices import Instance, is_stale, load_instances, price_age, stale_note
from epochcast.analyzer.tables import table
from epochcast.regressor import load_catalog

_HEADER = ("instance", "cloud", "region", "gpu", "per hour", "spot per hour", "vCPUs", "memory GiB", "days old")


@click.group(cls=Group)
def prices() -> None:
    """List instances and their prices, and bring them up to date."""


prices.add_command(update_prices)


@prices.command(name="list")
@prices_option
@click.option("--gpu", metavar="NAME", help="List only instances with this GPU.")
@gpus_option
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with each price's source.")
def list_prices(prices: Path | None, gpu: str | None, gpus: Path | None, as_json: bool) -> int:
    """List instances, their prices and how old the prices are. Exits 1 if none has the GPU.

    \b
    Example: epochcast prices list --gpu T4
    """
    catalog, today = load_catalog(gpus), price_age.today()
    instances, notes = load_instances(prices, catalog)
    if gpu is not None:
        name = catalog.resolve(gpu).name
        instances = [instance for instance in instances if instance.gpu == name]
    _tell([*notes, *filter(None, [stale_note(instances, today)])])
    if as_json:
        click.echo(json.dumps({"prices": [_json(instance, today) for instance in instances]}, indent=2))
    elif instances:
        terminal.say(table(_HEADER, [_row(instance, today) for instance in instances]))
    else:
        terminal.note(f"no instance of the price table has the {name}")
    return 0 if instances else 1


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
        f"{(today - instance.date).days}{', stale' * is_stale(instance, today)}",
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
        "price_stale": is_stale(instance, today),
    }
