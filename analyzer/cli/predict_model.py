"""``epochcast predict-model``: the white-box backends, which know the model rather than a trace; one file each."""

from __future__ import annotations

import click

from .predict_convmeter import convmeter
from .predict_distributed import distributed
from .predict_occupancy import occupancy


@click.group()
def predict_model() -> None:
    """Predict from the model itself, before anything has run."""


predict_model.add_command(distributed)
predict_model.add_command(convmeter)
predict_model.add_command(occupancy)
