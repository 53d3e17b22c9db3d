"""``epochcast evaluate``: accuracy by the project's own protocols, one file per part that is evaluated."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

_COMMANDS = {
    "convmeter": "Steps of networks that were left out, beside the other forms.",
    "detector": "Epoch periods, beside the trivial answer.",
    "distributed": "Iterations on several GPUs, beside the recipes that others use.",
    "occupancy": "GPU occupancy of networks that were left out, beside simpler models.",
    "regressor": "Latency on other GPUs, beside rules that learn next to nothing.",
}


@click.group(cls=LazyGroup, package=__name__, summaries=_COMMANDS)
def evaluate() -> None:
    """Measure accuracy by the project's own protocols, which group by workload or trace and never leak."""
