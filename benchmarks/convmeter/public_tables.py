"""The public tables of measured ConvNets, and what each form says of networks that were left out; for the scripts beside."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

import pandas as pd

from epochcast.analyzer.backends.convmeter.adapters import read_any
from epochcast.analyzer.backends.convmeter.evaluation import Answers, cross_validate
from epochcast.analyzer.backends.convmeter.forms import BASELINES, FORMS
from epochcast.analyzer.backends.convmeter.predictor import fit_predict

from ..page import CONVMETER
from ..page import markdown_table as markdown_table

PAGE = CONVMETER
RECIPES = (*FORMS, *BASELINES)


@cache
def points_of(name: str) -> pd.DataFrame:
    """Points of a table of the shared folder; says so and stops if that is not there."""
    folder = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data/convnets"
    if not (folder / name).exists():
        sys.exit(f"{folder / name} is not there; set EPOCHCAST_SHARED")
    return read_any(folder / name, folder / "timm_layer_features.csv.gz", folder / "timm_families.csv")


def left_out(points: pd.DataFrame, phase: str, recipe: str, protocol: str) -> Answers:
    """Each point as the form says that was fitted on the others."""
    return cross_validate(points, phase, partial(fit_predict, form=recipe), protocol)


def write_part(part: str, description: str | None, lines: Callable[[bool], Sequence[str]]) -> None:
    """Print the lines of a part of docs/convmeter.md; with --write put them there (``lines`` is told whether to draw too)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="fill docs/convmeter.md")
    write = parser.parse_args().write
    content = lines(write)
    print("\n".join(content))
    if write:
        PAGE.fill(part, content)
