"""``epochcast fit``: fit a predictor and write it to a folder."""

from __future__ import annotations

import click

from epochcast.analyzer.cli.group import LazyGroup

_COMMANDS = {
    "convmeter": "Fit ConvMeter's performance model to measured networks.",
    "regressor": "Fit the black-box latency predictor to profiles of several GPUs.",
}


@click.group(cls=LazyGroup, entry_points="epochcast.fit", summaries=_COMMANDS)
def fit() -> None:
    """Fit a predictor to measurements."""
