"""``epochcast evaluate``: accuracy by the project's own protocols, one file per part that is evaluated."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import PluginGroup

_COMMANDS = {
    "convmeter": "Compare predicted step times of left-out networks with other models.",
    "detector": "Compare detected epoch periods with true ones and a trivial answer.",
    "distributed": "Compare predicted iteration times on several GPUs with other recipes.",
    "occupancy": "Compare predicted GPU occupancy of left-out networks with simpler models.",
    "regressor": "Compare predicted latency on other GPUs with simple rules.",
}


@click.group(cls=PluginGroup, entry_points="epochcast.evaluate", package=__name__, summaries=_COMMANDS)
def evaluate() -> None:
    """Measure accuracy with protocols that group by workload or trace, so that nothing leaks."""
