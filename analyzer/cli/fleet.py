"""``epochcast fleet``: thousands of GPUs at once."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.fleet_analyze import analyze
from epochcast.analyzer.cli.group import Group


@click.group(cls=Group)
def fleet() -> None:
    """Analyse the traces of a whole fleet."""


fleet.add_command(analyze)
