"""``epochcast evaluate convmeter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...backends.convmeter.adapters import Reading, read_all
from ...backends.convmeter.evaluation import (
    PROTOCOLS,
    Answers,
    Figures,
    cell_names,
    cross_validate,
    measured_phases,
    train_and_test,
)
from ...backends.convmeter.forms import BASELINES, FORMS
from ...backends.convmeter.points import PHASES
from ...backends.convmeter.predictor import fit_predict
from ...errors import InputError
from ...plain_json import plain_json
from .. import progress, terminal
from ..choices import one_of_many
from .convmeter_report import compared, report
from .data_or_split import check_data_or_split

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PATH = click.Path(path_type=Path)
_RECIPES = (*FORMS, *BASELINES)
_PARTS = ("pooled", "corrected")
"""Steps on the way to `default` that take as long as it does; only `--recipe all`, or their own name, asks for them."""
_PANELS = 5
"""In a row of the figure: as many as there are phases."""


@click.command()
@click.option("--data", type=_PATH, multiple=True, metavar="CSV", help="Table of measured networks (repeatable).")
@click.option("--train", type=_PATH, multiple=True, metavar="CSV", help="Tables to fit on, with --test (repeatable).")
@click.option("--test", type=_PATH, multiple=True, metavar="CSV", help="Tables to test on, with --train (repeatable).")
@click.option("--features", type=_PATH, metavar="CSV", help="Layer metrics of timm's networks, needed for timm's tables.")
@click.option(
    "--families", type=_PATH, metavar="CSV", help="Family of each network and whether it is a ConvNet, for timm's tables."
)
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    help="Leave out a family of networks, one architecture under all its names, or one network. [default: family]",
)
@click.option(
    "--recipe", default="default", show_default=True, **one_of_many([*_RECIPES, "all"], "Form of the performance model")
)
@click.option(
    "--phase", type=click.Choice(list(PHASES)), help="Phase to predict. [default: step where measured, else inference]"
)
@click.option("--all-networks", is_flag=True, help="Include networks that --families says are no ConvNets.")
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw measured against predicted (Figs. 3, 5 and 7 of the paper).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
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

    Reads tables of `epochcast benchmark convmeter`, timm's benchmark-*.csv, torchvision_step_times.csv, cpu_phases.csv and
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
    check_data_or_split(data, train, test, protocol)
    test_table, *train_table = (
        read_all(paths, features, families, convnets_only=not all_networks) for paths in (test or data, train) if paths
    )
    asked = _Asked(test_table, train_table[0] if train_table else None, protocol or "family")
    phases = [phase] if phase is not None else measured_phases(test_table.points)
    told = phase or ("step" if "step" in phases else phases[0])
    first = "default" if recipe == "all" else recipe
    answers = {first: {one: asked.answer(first, one) for one in phases}}
    for name in (name for name in _RECIPES if name != first and (recipe == "all" or name not in _PARTS)):
        try:
            answers[name] = {one: asked.answer(name, one) for one in (phases if recipe == "all" else [told])}
        except InputError as error:  # it asks more of the rows than the one that was asked for
            terminal.note(f"{name} is left out: {error}")
    progress.clear()
    if plot is not None:
        from ...figures import save_figure

        save_figure(_figure(answers, first, phases), plot)
    figures = {name: {"recipe": name, **asked.settings(told), **_figures(one, told, asked)} for name, one in answers.items()}
    if recipe == "all":
        terminal.say(plain_json(list(figures.values())) if as_json else compared(list(figures.values())), as_is=as_json)
        return 0
    answer = figures[recipe] | {"baselines": {name: one for name, one in figures.items() if name != recipe}}
    terminal.say(plain_json(answer) if as_json else report(answer), as_is=as_json)
    return 0


@dataclass(frozen=True)
class _Asked:
    """What is tested, and what is fitted on: another table, or what the protocol leaves in."""

    test: Reading
    train: Reading | None
    protocol: str

    def answer(self, recipe: str, phase: str) -> Answers:
        """What a form says of a phase."""
        form = partial(fit_predict, form=recipe)
        if self.train is not None:
            return train_and_test(self.train.points, self.test.points, phase, form)
        return cross_validate(self.test.points, phase, form, self.protocol, lambda line: progress.show(f"{recipe}, {line}"))

    def settings(self, phase: str) -> dict[str, Any]:
        """How it was asked."""
        points = self.test.points
        sizes = {"networks": points["network"].nunique(), "families": points["family"].nunique()}
        return {
            "protocol": None if self.train is not None else self.protocol,
            "phase": phase,
            "settings": {
                **sizes,
                "rows": len(points),
                "left_out": dict(self.test.left_out),
                **({} if self.train is None else {"train_rows": len(self.train.points)}),
            },
        }


def _figures(answers: Mapping[str, Answers], told: str, asked: _Asked) -> dict[str, Any]:
    """The contract's keys: of whole networks, if any are there, in the phase that is told, and by what they differ in."""
    whole = {phase: _whole(one) for phase, one in answers.items()}
    one = whole[told]
    scores = asdict(one.figures)
    by = {
        "device": one.by(cell_names(one.points)),
        "phase": {phase: those.figures for phase, those in whole.items()},
        **{column: one.by(column) for column in ("batch", "image_size", "devices", "family", "network")},
        "block": _blocks(answers[told]),
    }
    return {
        **scores,
        "coverage": scores["n"] / (len(one.points) + asked.test.lacking),
        "spread": one.spread,
        "unanswered": one.reason,
        "by": {key: {name: asdict(figures) for name, figures in groups.items()} for key, groups in by.items()},
    }


def _whole(answers: Answers) -> Answers:
    whole = (answers.points["block"] == "").to_numpy()
    return answers.only(whole) if whole.any() else answers


def _blocks(answers: Answers) -> Mapping[str, Figures]:
    """Figures of each block, by its network and path."""
    blocks = answers.only((answers.points["block"] != "").to_numpy())
    named = blocks.points["network"] + " " + blocks.points["block"]
    return blocks.by(named)


def _figure(answers: Mapping[str, Mapping[str, Answers]], recipe: str, phases: Sequence[str]) -> Figure:
    """A row per phase, of the recipe and of the forms that answered all phases too.

    Of one phase or one form the panels go on in the next row where they fill one.
    """
    from ...figures.step_scatter import Panel, step_figure

    names = [recipe, *(name for name, one in answers.items() if name != recipe and set(phases) <= set(one))]

    def panel(name: str, phase: str) -> Panel:
        one = _whole(answers[name][phase])
        return Panel(name, phase, one.measured, one.predicted, cell_names(one.points))

    rows = [[panel(name, phase) for name in names] for phase in phases]
    if min(len(phases), len(names)) > 1:
        return step_figure(rows)
    panels = [one for row in rows for one in row]
    return step_figure([panels[begin : begin + _PANELS] for begin in range(0, len(panels), _PANELS)])
