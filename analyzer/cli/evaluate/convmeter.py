"""``epochcast evaluate convmeter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...backends.convmeter.adapters import read_all
from ...backends.convmeter.evaluation import (
    PROTOCOLS,
    Answers,
    cell_names,
    cross_validate,
    measured_phases,
    train_and_test,
)
from ...backends.convmeter.forms import BASELINES, FORMS
from ...backends.convmeter.points import PHASES
from ...backends.convmeter.predictor import fit_predict
from .. import progress
from ..choices import one_of_many
from ..shared_options import json_option
from .command import ALL, PATH, check_rows, each_recipe, rows_options, say_figures
from .report import Line, number, percent, report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_RECIPES = (*FORMS, *BASELINES)
_PARTS = ("pooled", "corrected")
"""Steps on the way to `default` that take as long as it does; only `--recipe all`, or their own name, asks for them."""
_PANELS = 5
"""In a row of the figure: as many as there are phases."""

_GROUPS = {
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "RMSE s": number("rmse"),
    "NRMSE": number("nrmse"),
    "R2": number("r2"),
    "n": number("n"),
}
_COLUMNS = {**_GROUPS, "answered": percent("coverage"), "sd of folds": number("spread")}


@click.command()
@rows_options("Tables of measured networks")
@click.option("--features", type=PATH, metavar="CSV", help="Layer metrics of timm's networks, needed for timm's tables.")
@click.option(
    "--families", type=PATH, metavar="CSV", help="Family of each network and whether it is a ConvNet, for timm's tables."
)
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    help="Leave out a family of networks, one architecture under all its names, or one network. [default: family]",
)
@click.option(
    "--recipe", default="default", show_default=True, **one_of_many([*_RECIPES, ALL], "Form of the performance model")
)
@click.option(
    "--phase", type=click.Choice(list(PHASES)), help="Phase to predict. [default: step where measured, else inference]"
)
@click.option("--all-networks", is_flag=True, help="Include networks that --families says are no ConvNets.")
@click.option("--plot", type=PATH, metavar="FILE", help="Draw measured against predicted (Figs. 3, 5 and 7 of the paper).")
@json_option
def convmeter(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    features: Path | None,
    families: Path | None,
    protocol: str | None,
    recipe: str,
    phase: str | None,
    all_networks: bool,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Compare predicted with measured steps of left-out networks, next to the other forms on the same rows.

    Reads tables of `epochcast measure convmeter`, timm's benchmark-*.csv, torchvision_step_times.csv, cpu_phases.csv and
    convnet.csv; each device and precision is fitted separately.

    \b
    Example: epochcast evaluate convmeter --data points.csv --protocol model
             epochcast evaluate convmeter \\
                 --data benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv \\
                 --features timm_layer_features.csv.gz \\
                 --families timm_families.csv --plot steps.png
             epochcast evaluate convmeter --train old.csv --test new.csv \\
                 --recipe all
    """
    check_rows(data, train, test, protocol=protocol)
    read = partial(read_all, features=features, families=families, convnets_only=not all_networks)
    tested, fitted = read(test or data), read(train) if train else None
    phases = [phase] if phase is not None else measured_phases(tested.points)
    shown = phase or ("step" if "step" in phases else phases[0])

    def measure(name: str) -> dict[str, Answers]:
        """By phase; of baselines only the phase that is shown is needed."""
        form = partial(fit_predict, form=name)
        needed = phases if recipe in (ALL, name) else [shown]
        if fitted is not None:
            return {phase: train_and_test(fitted.points, tested.points, phase, form) for phase in needed}
        tell = lambda line: progress.show(f"{name}, {line}")  # noqa: E731
        return {phase: cross_validate(tested.points, phase, form, protocol or "family", tell) for phase in needed}

    answers = each_recipe(recipe, _RECIPES, [name for name in _RECIPES if name not in _PARTS], measure)
    if plot is not None:
        from ...figures import save_figure

        save_figure(_figure(answers, phases), plot)
    settings = {
        "networks": tested.points["network"].nunique(),
        "families": tested.points["family"].nunique(),
        "rows": len(tested.points),
        "left_out": dict(tested.left_out),
        **({} if fitted is None else {"train_rows": len(fitted.points)}),
    }
    common = {"protocol": None if fitted is not None else protocol or "family", "phase": shown, "settings": settings}
    figures = {name: {"recipe": name, **common, **_figures(by, shown, tested.lacking)} for name, by in answers.items()}
    say_figures(recipe, figures, as_json, _text)
    return 0


def _figures(answers: Mapping[str, Answers], shown: str, lacking: int) -> dict[str, Any]:
    """Of whole networks, if any are there, in the phase that is shown, and by what they differ in."""
    networks = {phase: _whole(rows) for phase, rows in answers.items()}
    subject = networks[shown]
    blocks = answers[shown].only((answers[shown].points["block"] != "").to_numpy())
    by = {
        "device": subject.by(cell_names(subject.points)),
        "phase": {phase: rows.figures for phase, rows in networks.items()},
        **{column: subject.by(column) for column in ("batch", "image_size", "devices", "family", "network")},
        "block": blocks.by(blocks.points["network"] + " " + blocks.points["block"]),
    }
    return subject.to_json(by, lacking)


def _whole(answers: Answers) -> Answers:
    is_network = (answers.points["block"] == "").to_numpy()
    return answers.only(is_network) if is_network.any() else answers


def _figure(answers: Mapping[str, Mapping[str, Answers]], phases: Sequence[str]) -> Figure:
    """A row per phase, of the first recipe and of those that answered all phases too.

    Of one phase or one form the panels go on in the next row where they fill one.
    """
    from ...figures.scatter import Panel, step_figure

    names = [name for name, by in answers.items() if set(phases) <= set(by)]

    def panel(name: str, phase: str) -> Panel:
        rows = _whole(answers[name][phase])
        return Panel(f"{name}, {phase}", rows.measured, rows.predicted, cell_names(rows.points))

    rows = [[panel(name, phase) for name in names] for phase in phases]
    if min(len(phases), len(names)) > 1:
        return step_figure(rows)
    panels = [panel for row in rows for panel in row]
    return step_figure([panels[begin : begin + _PANELS] for begin in range(0, len(panels), _PANELS)])


def _text(answers: Sequence[Line], detailed: bool) -> str:
    """The last column of the first table is the standard deviation of the folds' MAPE."""
    first = answers[0]
    settings = first["settings"]
    size = f"{first['n']} rows of {settings['networks']} networks in {settings['families']} families"
    heading = {
        None: f"fitted on {settings.get('train_rows')} rows, tested on {size}",
        "family": f"family: {size}, each family predicted by a fit on all others",
        "architecture": f"architecture: {size}, each twelfth of the architectures predicted by a fit on the others",
        "model": f"model: {size}, each network predicted by a fit on all others",
    }[first["protocol"]]
    left_out = "; ".join(f"{count} rows left out: {reason}" for reason, count in settings["left_out"].items())
    heading += f"; {first['phase']} time" + (f" ({left_out})" if left_out else "")
    return report(heading, answers, _COLUMNS, first["by"] if detailed else {}, _GROUPS)
