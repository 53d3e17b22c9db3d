"""``epochcast train``: fit a predictor and write it to a folder; one file each."""

from __future__ import annotations

import click

from ..lazy_group import LazyGroup

_COMMANDS = {
    "convmeter": "ConvMeter's performance model, on measured networks.",
    "distributed": "The white-box model of distributed training, on measured runs or operators.",
    "occupancy": "A predictor of GPU occupancy, on measured networks.",
    "regressor": "The black-box latency predictor, on profiles of several GPUs.",
}


@click.group(cls=LazyGroup, package=__name__, summaries=_COMMANDS)
def train() -> None:
    """Fit a predictor on measurements."""
