"""``epochcast predict-model``: backends that know the model rather than a trace, ours and those of other packages."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import LazyGroup
from epochcast.analyzer.plugins import GROUP

_COMMANDS = {
    "convmeter": "Predict inference and training of a convolutional network, and how it scales.",
    "distributed": "Predict one training iteration on several GPUs, its parts, memory and cost.",
    "occupancy": "Predict SM occupancy and peak memory of a training, and the best batch.",
}


@click.group(cls=LazyGroup, entry_points=GROUP, summaries=_COMMANDS)
def predict_model() -> None:
    """Predict from the model itself, before it runs."""
