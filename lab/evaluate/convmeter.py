"""Compare predicted steps of left-out networks with measurements and with other models on the same rows.

Reads tables of `python -m lab.measure convmeter`, timm's benchmark-*.csv, torchvision_step_times.csv, cpu_phases.csv and
convnet.csv; each device and precision is fitted separately.

python -m lab.evaluate convmeter --data points.csv --protocol model --plot steps.png
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from epochcast.analyzer.charts import save_figure
from epochcast.analyzer.cli import progress
from lab.convmeter_tables import read_all
from lab.evaluate.common.comparison import ALL, check_rows, compared, each_recipe, held_out_figures, rows_options
from lab.evaluate.convmeter_protocols import Answers, cell_names, cross_validate, measured_phases, train_and_test
from lab.figures.scatter import Pairs, step_figure
from lab.rivals.convmeter import FORMS, fit_predict

_RECIPES = tuple(FORMS)
_PANELS = 5
"""In a row of the figure: as many as there are phases."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which networks to predict, from which others, and by which form."""
    rows_options(parser, "tables of measured networks")
    parser.add_argument("--features", type=Path, help="layer metrics of timm's networks, for timm's tables")
    parser.add_argument("--families", type=Path, help="family of each network, and whether it is a ConvNet, for timm's tables")
    parser.add_argument("--all-networks", action="store_true", help="also those that --families does not list as ConvNets")
    parser.add_argument(
        "--protocol",
        choices=("family", "architecture", "model"),
        help="leave out a family of networks (default), one architecture under all its names, or one network",
    )
    parser.add_argument("--recipe", default="default", choices=(*_RECIPES, ALL), help="form of the performance model")
    parser.add_argument(
        "--phase",
        choices=("inference", "forward", "backward", "update", "step"),
        help="phase to predict (default: step where measured, else inference)",
    )
    parser.add_argument("--plot", type=Path, help="draw measured against predicted (Figs. 3, 5 and 7 of the paper)")


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Fit and predict by each form."""
    check_rows(asked, "protocol")
    read = partial(read_all, features=asked.features, families=asked.families, convnets_only=not asked.all_networks)
    tested, fitted = read(asked.test or asked.data), read(asked.train) if asked.train else None
    phases = [asked.phase] if asked.phase else measured_phases(tested.points)
    shown = asked.phase or ("step" if "step" in phases else phases[0])
    protocol = None if fitted else asked.protocol or "family"

    def measure(name: str) -> dict[str, Answers]:
        """By phase; of baselines only the phase that is shown is needed."""
        form = partial(fit_predict, form=name)
        needed = phases if asked.recipe in (ALL, name) else [shown]
        if fitted is not None:
            return {phase: train_and_test(fitted.points, tested.points, phase, form) for phase in needed}
        tell = lambda line: progress.show(f"{name}, {line}")  # noqa: E731
        return {phase: cross_validate(tested.points, phase, form, protocol or "family", tell) for phase in needed}

    answers = each_recipe(asked.recipe, _RECIPES, _RECIPES, measure)
    if asked.plot:
        save_figure(step_figure(_panels(answers, phases)), asked.plot)
    settings = {
        "networks": tested.points["network"].nunique(),
        "families": tested.points["family"].nunique(),
        "rows": len(tested.points),
        "left_out": dict(tested.left_out),
        **({"train_rows": len(fitted.points)} if fitted else {}),
    }
    figures = {name: _figures(by, shown, tested.lacking) for name, by in answers.items()}
    return compared(asked.recipe, figures, protocol=protocol, phase=shown, settings=settings)


def _figures(answers: Mapping[str, Answers], shown: str, lacking: int) -> dict[str, Any]:
    """In the phase that is shown, and by what the rows differ in."""
    networks = {phase: _whole(rows) for phase, rows in answers.items()}
    subject = networks[shown]
    blocks = answers[shown].only((answers[shown].points["block"] != "").to_numpy())
    by = {
        "device": subject.by(cell_names(subject.points)),
        "phase": {phase: rows.figures for phase, rows in networks.items()},
        **{column: subject.by(column) for column in ("batch", "image_size", "devices", "family", "network")},
        "block": blocks.by(blocks.points["network"] + " " + blocks.points["block"]),
    }
    return held_out_figures(subject, by, lacking)


def _whole(answers: Answers) -> Answers:
    is_network = (answers.points["block"] == "").to_numpy()
    return answers.only(is_network) if is_network.any() else answers


def _panels(answers: Mapping[str, Mapping[str, Answers]], phases: Sequence[str]) -> list[list[Pairs]]:
    """A row per phase, of the first recipe and of those that answered all phases too.

    Of one phase or one form the panels go on in the next row where they fill one.
    """
    names = [name for name, by in answers.items() if set(phases) <= set(by)]

    def pairs(name: str, phase: str) -> Pairs:
        rows = _whole(answers[name][phase])
        return Pairs(f"{name}, {phase}", rows.measured, rows.predicted, cell_names(rows.points))

    rows = [[pairs(name, phase) for name in names] for phase in phases]
    if min(len(phases), len(names)) > 1:
        return rows
    panels = [panel for row in rows for panel in row]
    return [panels[begin : begin + _PANELS] for begin in range(0, len(panels), _PANELS)]
