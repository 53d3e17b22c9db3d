"""``epochcast measure``: collect what ConvMeter learns from."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import PluginGroup

_COMMANDS = {
    "convmeter": "Time inference and the phases of training of networks and blocks.",
}


@click.group(cls=PluginGroup, entry_points="epochcast.measure", package=__name__, summaries=_COMMANDS)
def measure() -> None:
    """Take the measurements that ConvMeter is fitted to."""
