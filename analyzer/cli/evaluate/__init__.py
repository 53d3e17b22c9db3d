"""``epochcast evaluate``: accuracy by the project's own protocols, one file per part that is evaluated."""

from __future__ import annotations

import click

from ..group import PluginGroup

_COMMANDS = {
    "convmeter": "Evaluate predicted step times of left-out networks, next to other forms.",
    "detector": "Evaluate detected epoch periods, next to a trivial answer.",
    "distributed": "Evaluate predicted iterations on several GPUs, next to other recipes.",
    "occupancy": "Evaluate predicted GPU occupancy of left-out networks, next to simpler models.",
    "regressor": "Evaluate predicted latency on other GPUs, next to simple rules.",
}


@click.group(cls=PluginGroup, entry_points="epochcast.evaluate", package=__name__, summaries=_COMMANDS)
def evaluate() -> None:
    """Measure accuracy by the project's own protocols, which group by workload or trace so that nothing leaks."""
