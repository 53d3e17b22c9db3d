"""``epochcast fit convmeter``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click
import pandas as pd

from ...backends.convmeter.adapters import read_all
from ...backends.convmeter.answer import rests_on
from ...backends.convmeter.forms import FORMS
from ...backends.convmeter.predictor import Cell, Predictor
from ...backends.convmeter.question import fitted
from ...errors import InputError
from ...plain_json import plain_json
from .. import progress, terminal
from ..shared_options import json_option, model_out_option

_PATH = click.Path(path_type=Path)

FEWEST_OF_ONE = 6
"""Points of one network that coefficients tuned to it need: with fewer a disturbed one decides."""


@click.command("convmeter")
@click.option(
    "--data", type=_PATH, multiple=True, required=True, metavar="CSV", help="Table of measured networks (repeatable)."
)
@click.option("--features", type=_PATH, metavar="CSV", help="Layer metrics of timm's networks, needed for timm's tables.")
@click.option(
    "--families", type=_PATH, metavar="CSV", help="Family of each network and whether it is a ConvNet, for timm's tables."
)
@click.option("--all-networks", is_flag=True, help="Include networks that --families says are no ConvNets.")
@click.option("--network", metavar="NAME", help="Fit on the points of this network alone (section 4.3 of the paper).")
@click.option(
    "--form", type=click.Choice(list(FORMS)), default="default", show_default=True, help="Form of the performance model."
)
@model_out_option
@json_option
def convmeter(
    data: tuple[Path, ...],
    features: Path | None,
    families: Path | None,
    all_networks: bool,
    network: str | None,
    form: str,
    out: Path,
    as_json: bool,
) -> int:
    """Fit ConvMeter's performance model to measured networks, each device and precision separately.

    Reads the tables that `epochcast evaluate convmeter` reads. A model tuned to one --network is good only for batches and
    numbers of devices between the measured ones. A model of many networks is as good there, and far better for other image
    sizes.

    \b
    Example: epochcast fit convmeter --data points.csv --out my-gpu
             epochcast fit convmeter \\
                 --data benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv \\
                 --features timm_layer_features.csv.gz \\
                 --families timm_families.csv --out rtx3090
    """
    began = time.monotonic()
    progress.show("reading")
    reading = read_all(data, features, families, convnets_only=not all_networks)
    points = reading.points if network is None else _of_network(reading.points, network)
    progress.show(f"fitting {len(points)} points")
    predictor = Predictor.fit(points, form)
    progress.clear()
    for sentence in predictor.unfitted:
        terminal.note(f"not fitted: {sentence}")
    predictor.save(out)
    answer = {
        "rows": len(points),
        "gpus": sorted(points["device"].unique()),
        "seconds": round(time.monotonic() - began, 1),
        "networks": points["network"].nunique(),
        "left_out": dict(reading.left_out),
        "cells": [
            {
                "device": cell.device,
                "precision": cell.precision,
                "fitted": {phase: fit.model_dump() for phase, fit in fitted(cell).items()},
            }
            for cell in predictor.cells
        ],
    }
    terminal.say(plain_json(answer) if as_json else _text(answer, predictor.cells, out), as_is=as_json)
    return 0


def _of_network(points: pd.DataFrame, network: str) -> pd.DataFrame:
    """The points of one network, of which there must be enough and of more than one kind."""
    own = points[points["network"] == network].reset_index(drop=True)
    if own.empty:
        close = get_close_matches(network, points["network"].unique(), n=3)
        hint = (
            f"did you mean {' or '.join(close)}?"
            if close
            else f"there are {', '.join(sorted(points['network'].unique())[:5])} …"
        )
        raise InputError(f"no point is of the network {network!r}; {hint}")
    for (device, precision), cell in own.groupby(["device", "precision"]):
        if len(cell) < FEWEST_OF_ONE or cell["batch"].nunique() < 2:
            raise InputError(
                f"{network} has {len(cell)} points with {cell['batch'].nunique()} batch sizes on {device} at {precision}; "
                f"tuning to it takes {FEWEST_OF_ONE} points and 2 batch sizes: measure more, or fit on all networks"
            )
    return own


def _text(answer: Mapping[str, Any], cells: Sequence[Cell], out: Path) -> str:
    left_out = ", ".join(f"{count} {reason}" for reason, count in answer["left_out"].items())
    lines = [
        f"{out}: fitted on {answer['rows']} points of {answer['networks']} networks in {answer['seconds']} s"
        + (f" (left out: {left_out})" if left_out else "")
    ]
    return "\n".join([*lines, *(f"\n{cell.device}, {cell.precision}\n{rests_on(fitted(cell))}" for cell in cells)])
