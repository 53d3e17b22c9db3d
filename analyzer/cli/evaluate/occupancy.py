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
from ...backends.occupancy.training_evaluation import PROTOCOLS as TRAINING_PROTOCOLS
from ...backends.occupancy.training_jobs import LABELS as TRAINING_LABELS
from ...errors import InputError
from .. import progress, terminal
from ..choices import one_of_many
from ..occupancy_text import TARGETS as TARGETS_TEXT
from ..occupancy_text import labels_text
from ..shared_options import gpus_option, json_option
from .command import ALL, PATH, check_rows, each_recipe, rows_options, say_figures
from .occupancy_training import PEAK_MEMORY, are_training_jobs
from .occupancy_training import evaluate as evaluate_training_jobs
from .report import Line, lines, number, percent, report, within

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CURVE = "learning-curve"
_LAUNCHES = "modelled-launches"
"""No fit at all: what `predict-model occupancy` answers without --model."""

_QUICK = ("mean", "nearest", "boosting", _LAUNCHES)
"""What a recipe is compared with unless `--recipe all` asks for the neural models too."""

_PROTOCOLS = {
    "model": "each network predicted by a fit on all others",
    "paper": "section V of the paper: fitted on 80 % of the rows of its seen networks; seen are the rest of their rows, unseen "
    "networks that were not fitted on",
    "transformers": "Table V of the paper: fitted on ViT-T alone",
    "clip": "Table IV of the paper: two CLIP networks seen beside those of section V, a third unseen",
    _CURVE: "networks predicted by fits on parts of the others",
}

_GROUPS = {
    "MRE %": number("mre"),
    "median %": number("median_ape"),
    "MSE": number("mse"),
    "R2": number("r2"),
    "n": number("n"),
}
_COLUMNS = {**_GROUPS, "answered": percent("coverage"), "sd of tests": number("spread")}


@click.command("occupancy")
@rows_options("Tables of labels, or their folders,", "PATH")
@click.option(
    "--protocol",
    type=click.Choice([*PROTOCOLS, _CURVE, *TRAINING_PROTOCOLS]),
    metavar="NAME",
    help=f"Split of one table: {', '.join([*PROTOCOLS, _CURVE])} (the paper's section V, Tables IV and V); of trainings "
    f"that DCGM measured {', '.join(TRAINING_PROTOCOLS)}. [default: model; layers]",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1000),
    metavar="K",
    help=f"Leave networks out in K groups, for slow models. [default: one by one; {FOLDS} for {_CURVE}]",
)
@click.option(
    "--recipe",
    default=None,
    **one_of_many([*MODELS, PEAK_MEMORY, _LAUNCHES, ALL], "Model to fit"),
)
@click.option(
    "--label",
    type=click.Choice(TRAINING_LABELS),
    help="Label to predict, of trainings that DCGM measured. [default: sm_occupancy]",
)
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
@gpus_option
@click.option("--plot", type=PATH, metavar="FILE", help="Draw measured against predicted, or the learning curve.")
@json_option
def occupancy(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    protocol: str | None,
    folds: int | None,
    recipe: str | None,
    label: str | None,
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

    Reads the tables that `epochcast train occupancy` reads, and trainings that DCGM measured (--label). The first line names
    where the labels come from: modelled labels show that the path works, and nothing about hardware.

    \b
    Example: epochcast evaluate occupancy --data points.csv
             epochcast evaluate occupancy --data points.csv --recipe dnn-occu \\
                 --folds 5 --plot occupancy.png
             epochcast evaluate occupancy --data points.csv --protocol paper \\
                 --recipe all
             epochcast evaluate occupancy --train old.csv --test new.csv
             epochcast evaluate occupancy --data measured.csv --label peak_memory
    """
    check_rows(data, train, test, protocol=protocol, folds=folds)
    catalog = load_catalog(gpus)
    if are_training_jobs(test or data):
        others = {
            "--plot": plot,
            "--labels": labels,
            "--target": target != "mean",
            f"--recipe {_LAUNCHES}": recipe == _LAUNCHES,
        }
        if given := [name for name, value in others.items() if value]:
            raise InputError(f"tables of trainings that DCGM measured take no {' and no '.join(given)}; leave it out")
        return evaluate_training_jobs(
            data,
            train,
            test,
            label=label or "sm_occupancy",
            protocol=protocol,
            folds=folds,
            recipe=recipe,
            epochs=epochs,
            seed=seed,
            gpu=gpu,
            catalog=catalog,
            as_json=as_json,
        )
    if label is not None or protocol in TRAINING_PROTOCOLS:
        if not (first := (test or data)[0]).exists():
            raise InputError(f"no such file: {str(first)!r}")
        option = f"--label {label}" if label is not None else f"--protocol {protocol}"
        raise InputError(f"{option} is for tables of trainings that DCGM measured; this is none, leave it out")
    recipe = recipe or DEFAULT_MODEL
    if recipe == PEAK_MEMORY:
        raise InputError(f"--recipe {PEAK_MEMORY} is for tables of trainings that DCGM measured; name another")
    if folds is not None and protocol not in (None, "model", _CURVE):
        raise InputError(
            f"--folds groups the networks that leave one by one; protocol {protocol} has its own, leave --folds out"
        )
    if protocol == _CURVE and recipe == _LAUNCHES:
        raise InputError(f"{_LAUNCHES} learns nothing, so it has no learning curve; name another --recipe or --protocol")
    named = None if gpu is None else catalog.resolve(gpu)
    tested = _read(test or data, labels, catalog, named)
    fitted = _read(train, labels, catalog, named) if train else None
    protocol = None if fitted is not None else protocol or "model"
    kind, points = tested.labelled.labels, tested.labelled.points
    if recipe == _LAUNCHES and kind == "modelled":
        raise InputError(
            f"{_LAUNCHES} made the modelled labels itself, so its error on them tells nothing; name another --recipe"
        )
    if protocol == _CURVE:
        folds = folds or FOLDS
    splits = [] if protocol is None else PROTOCOLS["model" if protocol == _CURVE else protocol](points, folds, seed)

    def measure(name: str) -> _Measured:
        def tell(line: str) -> None:
            progress.show(f"{name}, {line}")

        make: Make = partial(unfitted, name, {"seed": seed, "epochs": epochs})
        if name == _LAUNCHES:
            make = partial(ModelledLaunches, target)
        if fitted is not None:
            tell("fitting")
            return _Measured(train_and_test(fitted.labelled, tested.labelled, target, make))
        if protocol == _CURVE:
            curve, answers = learning_curve(tested.labelled, target, make, splits, seed=seed, progress=tell)
            return _Measured(answers, curve)
        return _Measured(cross_validate(tested.labelled, target, make, splits, tell))

    every, baselines = [*MODELS, _LAUNCHES], list(_QUICK)
    if kind == "modelled" or protocol == _CURVE:  # the labels are its own, or there is nothing that it learns
        every, baselines = ([name for name in names if name != _LAUNCHES] for names in (every, baselines))
    measured = each_recipe(recipe, every, baselines, measure)
    for sentence in _notes(tested, fitted):
        terminal.note(sentence)
    if plot is not None:
        from ...figures import save_figure

        save_figure(_figure(measured, protocol, kind), plot)
    common = {
        "labels": kind,
        "train_labels": kind if fitted is None else fitted.labelled.labels,
        "protocol": protocol,
        "target": target,
        "settings": {
            "rows": len(points),
            "networks": int(points["network"].nunique()),
            "gpus": sorted(points["gpu"].unique().tolist()),
            "seed": seed,
            "epochs": epochs,
            "folds": folds,
            "missing": [] if protocol is None else missing(points, protocol),
            "left_out": dict(tested.reading.left_out),
            **({} if fitted is None else {"train_rows": len(fitted.labelled.samples)}),
        },
    }
    lacking = tested.labelled.lacking
    figures = {name: {"recipe": name, **common, **answer.figures(lacking)} for name, answer in measured.items()}
    say_figures(recipe, figures, as_json, _text)
    return 0


@dataclass(frozen=True)
class _Table:
    """A table that was read."""

    reading: Reading
    labelled: LabelledSamples


def _read(paths: Sequence[Path], labels: str | None, catalog: Catalog, gpu: Gpu | None) -> _Table:
    progress.show("reading")
    reading = read_all(paths, catalog, gpu)
    return _Table(reading, labelled_samples(of_one_kind(reading.points, labels), catalog, progress.show))


@dataclass(frozen=True)
class _Measured:
    """What a recipe says, and how it does with less to learn from, where that was asked for."""

    answers: Answers
    curve: Sequence[CurvePoint] = ()

    def figures(self, lacking: int) -> dict[str, Any]:
        """The contract's keys, and the learning curve."""
        curve = {"curve": [asdict(point) for point in self.curve]} if self.curve else {}
        return {**self.answers.to_json(figures_by(self.answers), lacking), **curve}


def _notes(tested: _Table, fitted: _Table | None) -> list[str]:
    """What the user should know of the tables."""
    tables = [tested, *([] if fitted is None else [fitted])]
    left_out = {name: reason for table in tables for name, reason in table.labelled.left_out.items()}
    said = [note for table in tables for note in table.reading.notes]
    known = [] if fitted is None else _known(tested.labelled, fitted.labelled)
    return [*dict.fromkeys(said), *known, *(f"left out: {name}: {reason}" for name, reason in left_out.items())]


def _known(tested: LabelledSamples, fitted: LabelledSamples) -> list[str]:
    """How much of the tested table was fitted on: of that the figures tell no error on what is new.

    Other labels of the same rows, such as modelled ones, are no answers to these.
    """
    if fitted.labels != tested.labels:
        return []
    own = [*CONFIGURATION, "gpu"]
    rows = int(pd.MultiIndex.from_frame(tested.points[own]).isin(pd.MultiIndex.from_frame(fitted.points[own])).sum())
    others = int(tested.points["network"].isin(set(fitted.points["network"])).sum()) - rows
    said = [
        (rows, "are in --train too: no test"),
        (others, "are of networks that are in --train with other sizes: no test of new networks"),
    ]
    return [f"{count} of the {len(tested.points)} rows of --test {what}" for count, what in said if count]


def _figure(measured: Mapping[str, _Measured], protocol: str | None, labels: str) -> Figure:
    if protocol == _CURVE:
        from ...figures.errors import learning_curve_figure

        return learning_curve_figure({name: list(answer.curve) for name, answer in measured.items()})
    from ...figures.scatter import Panel, ratio_scatter_figure

    return ratio_scatter_figure(
        [
            Panel(name, rows.measured, rows.predicted, rows.points["family"].to_numpy(dtype=str))
            for name, rows in ((name, answer.answers) for name, answer in measured.items())
        ],
        "modelled" if labels == "modelled" else "measured",
    )


def _text(answers: Sequence[Line], detailed: bool) -> str:
    """Where the labels come from is said first; the last column of the first table is of the tests' MRE."""
    first = answers[0]
    beside = []
    if first["protocol"] in ("paper", "transformers", "clip"):
        beside.append(_tests(answers))
    if "curve" in first:
        beside.append(_curves(answers))
    by = dict(first["by"]) if detailed else {}
    if detailed and list(by["test"]) == list(by["network"]):
        del by["test"]
    heading = f"{labels_text(first['labels'])}\n{_heading(first)}"
    return report(heading, answers, _COLUMNS, by, _GROUPS, beside=beside)


def _heading(answer: Line) -> str:
    settings, protocol = answer["settings"], answer["protocol"]
    size = f"{settings['rows']} rows of {settings['networks']} networks on {', '.join(settings['gpus'])}"
    if protocol is None:
        heading = f"{size}, fitted on {settings['train_rows']} other rows"
        if answer["train_labels"] != answer["labels"]:
            heading += f" with labels {answer['train_labels']}"
    else:
        groups = f", in {settings['folds']} groups" if settings["folds"] else ""
        heading = f"{protocol}: {size}, {_PROTOCOLS[protocol]}{groups}"
    heading += f"; {TARGETS_TEXT[answer['target']]}"
    if settings["missing"]:
        heading += f"\nof the protocol's networks these are not in the table: {', '.join(settings['missing'])}"
    if settings["left_out"]:
        heading += "\nrows left out: " + ", ".join(f"{count} {reason}" for reason, count in settings["left_out"].items())
    return heading


def _tests(answers: Sequence[Line]) -> str:
    """MRE and rows of each test, a column per recipe."""
    tests = {line["recipe"]: line["by"]["test"] for line in answers}
    columns = {name: within(name, number("mre")) for name in tests}
    rows = [
        (test, {"n": figures["n"], **{name: by.get(test) for name, by in tests.items()}})
        for test, figures in answers[0]["by"]["test"].items()
    ]
    return lines("MRE %", {"n": number("n"), **columns}, rows)


def _curves(answers: Sequence[Line]) -> str:
    """MRE by what was fitted on, a column per recipe, with the spread of draws."""
    curves = {line["recipe"]: {(point["by"], point["size"]): point for point in line["curve"]} for line in answers}
    sizes = sorted({key for points in curves.values() for key in points})
    rows = [(f"{size} {by}", {name: points.get((by, size)) for name, points in curves.items()}) for by, size in sizes]
    return lines("MRE %, fitted on", {name: within(name, _point) for name in curves}, rows)


def _point(point: Line) -> str:
    if not point:
        return "-"
    return f"{point['mre']:.1f}" + (f" ± {point['spread']:.1f}" if point["draws"] > 1 else "")
