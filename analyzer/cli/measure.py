"""``epochcast measure``: the measurements that predictors are fitted to."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import LazyGroup

_COMMANDS = {"convmeter": "Time inference and the phases of training of networks and blocks."}


@click.group(cls=LazyGroup, entry_points="epochcast.measure", summaries=_COMMANDS)
def measure() -> None:
    """Take the measurements that ConvMeter is fitted to."""
