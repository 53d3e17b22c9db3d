"""``epochcast evaluate occupancy``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pandas as pd

from ....regressor import Catalog, Gpu, load_catalog
from ...backends.occupancy.evaluation import PROTOCOLS, Answers, Make, cross_validate, figures_by, missing, train_and_test
from ...backends.occupancy.label_files import Reading, read_all
from ...backends.occupancy.labelled_samples import LabelledSamples, labelled_samples, of_one_kind
from ...backends.occupancy.learning_curve import FOLDS, CurvePoint, learning_curve
from ...backends.occupancy.modelled_launches import ModelledLaunches
from ...backends.occupancy.models import EPOCHS, MODELS
from ...backends.occupancy.points import CONFIGURATION, LABELS, TARGETS
from ...backends.occupancy.predictor import DEFAULT_MODEL, unfitted
from ...errors import InputError
from ...evaluation import Split
from ...plain_json import plain_json
from .. import progress, terminal
from ..choices import one_of_many
from .data_or_split import check_data_or_split
from .occupancy_report import compared, report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PATH = click.Path(path_type=Path)
_CURVE = "learning-curve"
_LAUNCHES = "modelled-launches"
"""No fit at all: what `predict-model occupancy` answers without --model."""

_QUICK = ("mean", "nearest", "boosting", _LAUNCHES)
"""What a recipe is compared with unless `--recipe all` asks for the neural models too."""


@click.command("occupancy")
@click.option(
    "--data", type=_PATH, multiple=True, metavar="PATH", help="Table of labels, or the folder that holds it (repeatable)."
)
@click.option("--train", type=_PATH, multiple=True, metavar="PATH", help="Tables to fit on, with --test (repeatable).")
@click.option("--test", type=_PATH, multiple=True, metavar="PATH", help="Tables to test on, with --train (repeatable).")
@click.option(
    "--protocol",
    type=click.Choice([*PROTOCOLS, _CURVE]),
    help="Leave out each network, split as the paper does (section V, Tables IV and V), or draw a learning curve. "
    "[default: model]",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1000),
    metavar="K",
    help=f"Leave networks out in K groups, for slow models. [default: one by one; {FOLDS} for {_CURVE}]",
)
@click.option("--recipe", default=DEFAULT_MODEL, show_default=True, **one_of_many([*MODELS, _LAUNCHES, "all"], "Model to fit"))
@click.option(
    "--target",
    type=click.Choice(TARGETS),
    default="mean",
    show_default=True,
    help="Occupancy to predict: mean over kernels, weighted by time, or maximum.",
)
@click.option(
    "--epochs",
    type=click.IntRange(1, 100_000),
    default=EPOCHS,
    show_default=True,
    metavar="N",
    help="Training epochs of a neural model.",
)
@click.option(
    "--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, metavar="N", help="Seed of the random numbers."
)
@click.option("--labels", type=click.Choice(LABELS), help="Use only rows with these labels, if a table has several kinds.")
@click.option("--gpu", metavar="NAME", help="GPU it was measured on, if a table does not name it.")
@click.option("--gpus", type=_PATH, metavar="FILE", help="TOML file with GPUs of your own.")
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw measured against predicted, or the learning curve.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def occupancy(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    protocol: str | None,
    folds: int | None,
    recipe: str,
    target: str,
    epochs: int,
    seed: int,
    labels: str | None,
    gpu: str | None,
    gpus: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Compare predicted with labelled GPU occupancy of left-out networks, next to simpler models on the same rows.

    Reads the tables that `epochcast train occupancy` reads. The first line names where the labels come from: modelled labels
    show that the path works, and nothing about hardware.

    \b
    Example: epochcast evaluate occupancy --data points.csv
             epochcast evaluate occupancy --data points.csv --recipe dnn-occu \\
                 --folds 5 --plot occupancy.png
             epochcast evaluate occupancy --data points.csv --protocol paper \\
                 --recipe all
             epochcast evaluate occupancy --train old.csv --test new.csv
    """
    check_data_or_split(data, train, test, protocol)
    if folds is not None and protocol not in (None, "model", _CURVE):
        raise InputError(
            f"--folds groups the networks that leave one by one; protocol {protocol} has its own, leave --folds out"
        )
    if protocol == _CURVE and recipe == _LAUNCHES:
        raise InputError(f"{_LAUNCHES} learns nothing, so it has no learning curve; name another --recipe or --protocol")
    catalog = load_catalog(gpus)
    named = None if gpu is None else catalog.resolve(gpu)
    tested = _read(test or data, labels, catalog, named)
    fitted = _read(train, labels, catalog, named) if train else None
    asked = _Asked(tested, fitted, protocol or "model", folds, target, seed)
    if recipe == _LAUNCHES and asked.labels == "modelled":
        raise InputError(
            f"{_LAUNCHES} made the modelled labels itself, so its error on them tells nothing; name another --recipe"
        )
    names = [*MODELS, _LAUNCHES] if recipe == "all" else [recipe, *(name for name in _QUICK if name != recipe)]
    if asked.labels == "modelled" or protocol == _CURVE:
        names = [name for name in names if name != _LAUNCHES]  # the labels are its own, or there is nothing that it learns
    splits = asked.splits()
    told: dict[str, _Told] = {}
    errors: list[InputError] = []
    for name in names:
        try:
            told[name] = asked.told(name, _make(name, target, epochs, seed), splits)
        except InputError as error:  # a library is missing, or it asks more of the rows than the one that was asked for
            if name == recipe:
                raise
            errors.append(error)
            terminal.note(f"{name} is left out: {error}")
    if not told:
        raise errors[0]
    progress.clear()
    for sentence in asked.notes:
        terminal.note(sentence)
    if plot is not None:
        from ...figures import save_figure

        save_figure(_figure(told, asked), plot)
    figures = {name: {"recipe": name, **asked.settings(epochs), **_figures(one, asked)} for name, one in told.items()}
    if recipe == "all":
        terminal.say(plain_json(list(figures.values())) if as_json else compared(list(figures.values())), as_is=as_json)
        return 0
    answer = figures[recipe] | {"baselines": {name: one for name, one in figures.items() if name != recipe}}
    terminal.say(plain_json(answer) if as_json else report(answer), as_is=as_json)
    return 0


@dataclass(frozen=True)
class _Rows:
    """A table that was read."""

    reading: Reading
    labelled: LabelledSamples


def _read(paths: Sequence[Path], labels: str | None, catalog: Catalog, gpu: Gpu | None) -> _Rows:
    progress.show("reading")
    reading = read_all(paths, catalog, gpu)
    return _Rows(reading, labelled_samples(of_one_kind(reading.points, labels), catalog, progress.show))


def _make(name: str, target: str, epochs: int, seed: int) -> Make:
    if name == _LAUNCHES:
        return lambda: ModelledLaunches(target)
    return partial(unfitted, name, {"seed": seed, "epochs": epochs})


@dataclass(frozen=True)
class _Told:
    """What a recipe says, and how it does with less to learn from, where that was asked for."""

    answers: Answers
    curve: Sequence[CurvePoint] = ()


@dataclass(frozen=True)
class _Asked:
    """What is tested, and what is fitted on: another table, or what the protocol leaves in."""

    test: _Rows
    train: _Rows | None
    protocol: str
    folds: int | None
    target: str
    seed: int

    @property
    def labels(self) -> str:
        """Of what is tested."""
        return self.test.labelled.labels

    @property
    def notes(self) -> list[str]:
        """What the user should know of the tables."""
        tables = [self.test, *([] if self.train is None else [self.train])]
        left_out = {name: reason for one in tables for name, reason in one.labelled.left_out.items()}
        said = [note for one in tables for note in one.reading.notes]
        return [*dict.fromkeys(said), *self._known(), *(f"left out: {name}: {reason}" for name, reason in left_out.items())]

    def _known(self) -> list[str]:
        """How much of the tested table was fitted on: of that the figures tell no error on what is new.

        Other labels of the same rows, such as modelled ones, are no answers to these.
        """
        if self.train is None or self.train.labelled.labels != self.labels:
            return []
        tested, fitted = self.test.labelled.points, self.train.labelled.points
        own = [*CONFIGURATION, "gpu"]
        rows = int(pd.MultiIndex.from_frame(tested[own]).isin(pd.MultiIndex.from_frame(fitted[own])).sum())
        others = int(tested["network"].isin(set(fitted["network"])).sum()) - rows
        said = [
            (rows, "are in --train too: no test"),
            (others, "are of networks that are in --train with other sizes: no test of new networks"),
        ]
        return [f"{count} of the {len(tested)} rows of --test {what}" for count, what in said if count]

    def splits(self) -> list[Split]:
        """The fits of the protocol; none with a table to fit on."""
        if self.train is not None:
            return []
        points = self.test.labelled.points
        if self.protocol == _CURVE:
            return PROTOCOLS["model"](points, self.folds or FOLDS, self.seed)
        return PROTOCOLS[self.protocol](points, self.folds, self.seed)

    def told(self, recipe: str, make: Make, splits: Sequence[Split]) -> _Told:
        """What a recipe says of all tested rows."""
        data = self.test.labelled

        def tell(line: str) -> None:
            progress.show(f"{recipe}, {line}")

        if self.train is not None:
            tell("fitting")
            return _Told(train_and_test(self.train.labelled, data, self.target, make))
        if self.protocol == _CURVE:
            curve, answers = learning_curve(data, self.target, make, splits, seed=self.seed, progress=tell)
            return _Told(answers, curve)
        return _Told(cross_validate(data, self.target, make, splits, tell))

    def settings(self, epochs: int) -> dict[str, Any]:
        """How it was asked."""
        data = self.test.labelled
        return {
            "labels": data.labels,
            "train_labels": data.labels if self.train is None else self.train.labelled.labels,
            "protocol": None if self.train is not None else self.protocol,
            "target": self.target,
            "settings": {
                "rows": len(data.samples),
                "networks": int(data.points["network"].nunique()),
                "gpus": sorted(data.points["gpu"].unique().tolist()),
                "seed": self.seed,
                "epochs": epochs,
                "folds": self.folds or (FOLDS if self.protocol == _CURVE else None),
                "missing": [] if self.train is not None else missing(data.points, self.protocol),
                "left_out": dict(self.test.reading.left_out),
                **({} if self.train is None else {"train_rows": len(self.train.labelled.samples)}),
            },
        }


def _figures(told: _Told, asked: _Asked) -> dict[str, Any]:
    """The contract's keys, and figures of each test and by what the rows differ in."""
    answers = told.answers
    scores = asdict(answers.figures)
    by = figures_by(answers)
    return {
        **scores,
        "coverage": scores["n"] / (len(answers.points) + asked.test.labelled.lacking),
        "spread": answers.spread,
        "unanswered": answers.reason,
        "by": {key: {name: asdict(figures) for name, figures in groups.items()} for key, groups in by.items()},
        **({"curve": [asdict(point) for point in told.curve]} if told.curve else {}),
    }


def _figure(told: Mapping[str, _Told], asked: _Asked) -> Figure:
    if asked.protocol == _CURVE and asked.train is None:
        from ...figures.learning_curve import learning_curve_figure

        return learning_curve_figure({name: list(one.curve) for name, one in told.items()})
    from ...figures.ratio_scatter import RatioPanel, ratio_scatter_figure

    return ratio_scatter_figure(
        [
            RatioPanel(name, one.answers.measured, one.answers.predicted, one.answers.points["family"].to_numpy(dtype=str))
            for name, one in told.items()
        ],
        "modelled" if asked.labels == "modelled" else "measured",
    )
