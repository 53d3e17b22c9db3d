"""``epochcast evaluate``: accuracy by the project's own protocols, one file per part that is evaluated."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import PluginGroup

_COMMANDS = {
    "detector": "Compare detected epoch periods with true ones and a trivial answer.",
    "regressor": "Compare predicted latency on other GPUs with simple rules.",
}


@click.group(cls=PluginGroup, entry_points="epochcast.evaluate", package=__name__, summaries=_COMMANDS)
def evaluate() -> None:
    """Measure accuracy with protocols that group by workload or trace, so that nothing leaks."""
