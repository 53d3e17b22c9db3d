"""``epochcast calibrate distributed``, and a folder that ``epochcast train distributed`` wrote."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..backends.distributed.coefficients import Coefficients
from . import terminal
from .train.distributed import fit_runs, fitted_text


def is_distributed(model: str) -> bool:
    """Whether MODEL of `epochcast calibrate` means the white-box model of distributed training."""
    return model == "distributed" or (Path(model) / "coefficients.json").is_file()


def calibrate_distributed(model: str, data: tuple[Path, ...], out: Path, as_json: bool) -> int:
    """Fit the coefficients of MODEL anew on measured runs, held by what they are in it; the folder may be the same."""
    belief = Coefficients.shipped() if model == "distributed" else Coefficients.load(Path(model))
    answer = fit_runs(data, belief, out)
    if as_json:
        click.echo(json.dumps(answer))
        return 0
    terminal.say(fitted_text(answer, out, belief))
    return 0
