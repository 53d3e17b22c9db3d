"""``epochcast calibrate distributed``, and a folder that ``epochcast train distributed`` wrote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import click

from ...regressor.model_folder import is_kind
from ..backends.distributed.fitted_model import DistributedManifest, FittedModel
from . import terminal
from .train.distributed import fit_runs, fitted_text


def is_distributed(model: str) -> bool:
    """Whether MODEL of `epochcast calibrate` means the white-box model of distributed training."""
    return model == "distributed" or is_kind(Path(model), DistributedManifest)


def calibrate_distributed(model: str, data: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Fit the coefficients of MODEL anew on measured runs, held by what they are in it; the folder may be the same."""
    before = FittedModel.load() if model == "distributed" else FittedModel.load(Path(model))
    fitted, answer = fit_runs(data, before.coefficients)
    # The shipped operator times are those of whatever has none of its own.
    replace(fitted, operators=None if model == "distributed" else before.operators).save(out)
    if as_json:
        click.echo(json.dumps(answer))
        return 0
    terminal.say(fitted_text(answer, out, before.coefficients))
    return 0
