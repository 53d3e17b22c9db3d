"""``epochcast evaluate``: accuracy by the project's own protocols, one file per part that is evaluated."""

from __future__ import annotations

import click

from .evaluate_convmeter import convmeter
from .evaluate_detector import detector
from .evaluate_distributed import distributed
from .evaluate_occupancy import occupancy
from .evaluate_regressor import regressor


@click.group()
def evaluate() -> None:
    """Measure accuracy by the project's own protocols, which group by workload or trace and never leak."""


evaluate.add_command(detector)
evaluate.add_command(regressor)
evaluate.add_command(distributed)
evaluate.add_command(convmeter)
evaluate.add_command(occupancy)
