"""The option ``--recipe`` of the commands that train or ask the latency predictor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from ...regressor import Catalog, LatencyPredictor
from ..errors import InputError

if TYPE_CHECKING:
    from ...regressor import PaperPredictor

Recipe = Literal["default", "paper"]

recipe_option = click.option(
    "--recipe",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Epochcast's own predictor, or the black-box paper's (none is shipped: train it).",
)


def load_predictor(recipe: Recipe, model: Path | None, catalog: Catalog) -> LatencyPredictor | PaperPredictor:
    """The model in a folder, or the shipped one; raises InputError where it is of another recipe, or none is shipped."""
    if recipe == "default":
        return LatencyPredictor.load(model, catalog)
    if model is None:
        raise InputError(
            "no model of recipe 'paper' is shipped; train one with `epochcast train regressor --recipe paper` "
            "and name its folder with --model"
        )
    from ...regressor import PaperPredictor

    return PaperPredictor.load(model, catalog)
