"""``epochcast predict-model``: the white-box backends, which know the model rather than a trace; one file each."""

from __future__ import annotations

import click

from ..group import LazyGroup

_COMMANDS = {
    "convmeter": "Predict inference and training of a convolutional network, and how it scales.",
    "distributed": "Predict one training iteration on several GPUs, its parts, memory and cost.",
    "occupancy": "Predict how full a network's inference keeps a GPU, and the best batch.",
}


@click.group(cls=LazyGroup, package=__name__, summaries=_COMMANDS)
def predict_model() -> None:
    """Predict from the model itself, before anything has run."""
