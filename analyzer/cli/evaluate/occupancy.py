"""``epochcast evaluate occupancy``: SM occupancy, SM activity and peak memory of trainings that DCGM measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from ....regressor import load_catalog
from ...backends.occupancy.evaluation import FOLDS, PROTOCOLS, Answers, cross_validate, peak_memory, train_and_test
from ...backends.occupancy.models import EPOCHS, MODELS, Model
from ...backends.occupancy.predictor import DEFAULT_MODEL, unfitted
from ...backends.occupancy.training_jobs import LABELS, TrainingJobs, read_training_jobs
from ...errors import InputError
from ...evaluation.report import Line, number, percent, report
from .. import progress, terminal
from ..choices import one_of_many
from ..shared_options import gpus_option, json_option
from .command import ALL, check_rows, each_recipe, rows_options, say_figures

PEAK_MEMORY = "peak-memory"
"""The recipe that knows torch's allocator, of peak memory alone."""

_COLUMNS = {
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "R2": number("r2"),
    "n": number("n"),
    "answered": percent("coverage"),
    "sd of tests": number("spread"),
}
_GROUPS = {name: _COLUMNS[name] for name in ("MAPE %", "median %", "R2", "n")}

_HEADINGS = {
    "layers": "each network predicted by a fit on others, in groups of equal networks",
    "architecture": "each architecture predicted by a fit on all others",
    "depth": "the deepest quarter predicted by a fit on the rest",
    "width": "the widest quarter predicted by a fit on the rest",
}


@click.command("occupancy")
@rows_options("Tables of measured trainings")
@click.option("--label", type=click.Choice(LABELS), default="sm_occupancy", show_default=True, help="Label to predict.")
@click.option(
    "--protocol",
    type=click.Choice(list(PROTOCOLS)),
    metavar="NAME",
    help="What leaves the fit together: layers (equal networks), architecture, or the deepest or widest quarter (depth, "
    "width). [default: layers]",
)
@click.option(
    "--folds",
    type=click.IntRange(2, 1000),
    metavar="K",
    help=f"Groups that leave in turn, for --protocol layers. [default: {FOLDS}]",
)
@click.option(
    "--recipe",
    default=None,
    **one_of_many([*MODELS, PEAK_MEMORY, ALL], "Model to fit"),
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
@click.option("--gpu", metavar="NAME", help="GPU it was measured on, if a table does not name it. [default: A100 SXM4 40GB]")
@gpus_option
@json_option
def occupancy(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    label: str,
    protocol: str | None,
    folds: int | None,
    recipe: str | None,
    epochs: int,
    seed: int,
    gpu: str | None,
    gpus: Path | None,
    as_json: bool,
) -> int:
    """Compare predicted with measured SM occupancy, SM activity or peak memory of trainings that the fit did not see.

    Reads the tables that `epochcast fit occupancy` reads. The mean of the fitted trainings is scored on the same rows; for
    peak memory, so is `trees`, which does not know the allocator. Trainings that ran out of memory are scored apart.

    \b
    Example: epochcast evaluate occupancy --data trainings.csv
             epochcast evaluate occupancy --data trainings.csv \\
                 --label peak_memory --protocol architecture
             epochcast evaluate occupancy --train old.csv --test new.csv \\
                 --label sm_active --recipe all
    """
    check_rows(data, train, test, protocol=protocol, folds=folds)
    if folds is not None and protocol not in (None, "layers"):
        raise InputError(f"--folds is for protocol layers; {protocol} has its own groups, leave --folds out")
    of_memory = label == "peak_memory"
    recipe = recipe or (PEAK_MEMORY if of_memory else DEFAULT_MODEL)
    if recipe == PEAK_MEMORY and not of_memory:
        raise InputError(f"--recipe {PEAK_MEMORY} predicts no {label}; give --label peak_memory or another recipe")
    catalog = load_catalog(gpus)
    board = None if gpu is None else catalog.resolve(gpu)
    progress.show("reading")
    every = read_training_jobs(test or data, catalog, board)
    tested, crashed = every.labelled(label), every.crashed(label)
    if not tested.samples:
        raise InputError(f"no row that ran to its end has a {label} that can be scored; give a table with some")
    known = read_training_jobs(train, catalog, board) if train else every
    fitted = known.labelled(label)
    protocol = None if train else protocol or "layers"
    splits = [] if protocol is None else PROTOCOLS[protocol](tested.points, folds or FOLDS, seed)

    def measure(name: str) -> dict[str, Any]:
        def say(line: str) -> None:
            progress.show(f"{name}, {line}")

        if name == PEAK_MEMORY:
            own = None if protocol is None else PROTOCOLS[protocol](every.points, folds or FOLDS, seed)
            answers, crashes = peak_memory(known, every, own, say)
            return _figures(answers) | {"out_of_memory": vars(crashes), "crashed": {"n": 0}}
        make = partial(unfitted, name, {"seed": seed, "epochs": epochs})
        answers = (
            train_and_test(fitted, tested, label, make)
            if protocol is None
            else cross_validate(tested, label, make, splits, say)
        )
        return _figures(answers) | {"crashed": _apart(fitted, crashed, label, make)}

    recipes, baselines = [*MODELS], ["mean"]
    if of_memory:
        recipes, baselines = [PEAK_MEMORY, *recipes], ["trees", *baselines]
    answers = each_recipe(recipe, recipes, baselines, measure)
    if train and (shared := int(tested.points["layers"].isin(set(fitted.points["layers"])).sum())):
        terminal.note(f"{shared} of the {len(tested.points)} rows of --test are networks of --train: no test of new networks")
    common = {
        "labels": "dcgm",
        "label": label,
        "protocol": protocol,
        "settings": {
            "rows": len(tested.points),
            "networks": int(tested.points["layers"].nunique()),
            "gpus": sorted(set(tested.points["gpu"])),
            "seed": seed,
            "epochs": epochs,
            "folds": folds,
            "left_out": dict(every.left_out) | {"not read, or idle": int(every.points["fits"].sum()) - len(tested.points)},
            **({"train_rows": len(fitted.points)} if train else {}),
        },
    }
    figures = {name: {"recipe": name, **common, **answer} for name, answer in answers.items()}
    say_figures(recipe, figures, as_json, _text)
    return 0


def _figures(answers: Answers) -> dict[str, Any]:
    by = {"test": answers.by_test(), "architecture": answers.by("architecture")}
    return answers.to_json(by)


def _apart(fitted: TrainingJobs, crashed: TrainingJobs, label: str, make: Callable[[], Model]) -> dict[str, Any]:
    """Error figures of trainings that ran out of memory and have the label all the same, by a fit on other networks."""
    if not len(crashed.samples):
        return {"n": 0}
    others = fitted.only(~fitted.points["layers"].isin(set(crashed.points["layers"])).to_numpy(dtype=bool))
    scores = train_and_test(others, crashed, label, make).figures
    return {"n": scores.n, "mape": scores.mape, "median_ape": scores.median_ape}


def _text(answers: Sequence[Line], detailed: bool) -> str:
    first = answers[0]
    settings = first["settings"]
    heading = f"labels: {first['label']} as DCGM measured it while networks trained\n"
    heading += f"{settings['rows']} rows of {settings['networks']} networks on {', '.join(settings['gpus'])}, "
    if first["protocol"] is None:
        heading += f"fitted on {settings['train_rows']} other rows"
    else:
        heading += _HEADINGS[first["protocol"]]
    left_out = {reason: count for reason, count in settings["left_out"].items() if count}
    if left_out:
        heading += "\nrows left out: " + ", ".join(f"{count} {reason}" for reason, count in left_out.items())
    if apart := first["crashed"]["n"]:
        heading += f"\n{apart} rows ran out of memory and have the label: {first['crashed']['mape']:.1f} % off, scored apart"
    if "out_of_memory" in first and first["out_of_memory"]["crashed"]:
        crashes = first["out_of_memory"]
        heading += (
            f"\nout of memory: {crashes['crashed']} of {crashes['n']}, {crashes['recall']:.1f} % of them foreseen; "
            f"{crashes['precision']:.1f} % of the warnings right"
        )
    by = dict(first["by"]) if detailed else {}
    return report(heading, {line["recipe"]: line for line in answers}, _COLUMNS, by, _GROUPS)
