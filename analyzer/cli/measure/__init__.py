"""``epochcast measure``: collect what the white-box backends learn from; one file each."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import PluginGroup

_COMMANDS = {
    "convmeter": "Time inference and the phases of training of networks and blocks.",
    "occupancy": "Measure GPU occupancy and memory while networks train.",
    "operators": "Time the operators of models, and random operators.",
}


@click.group(cls=PluginGroup, entry_points="epochcast.measure", package=__name__, summaries=_COMMANDS)
def measure() -> None:
    """Take the measurements that white-box backends are fitted to."""
