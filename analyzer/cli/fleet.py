"""``epochcast fleet``: thousands of GPUs at once."""

from __future__ import annotations

import click

from .fleet_analyze import analyze
from .fleet_simulate import simulate
from .group import Group


@click.group(cls=Group)
def fleet() -> None:
    """Analyse the traces of a whole fleet, or simulate one."""


fleet.add_command(analyze)
fleet.add_command(simulate)
