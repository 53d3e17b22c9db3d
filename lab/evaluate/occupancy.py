"""Compare predicted SM occupancy, SM activity or peak memory with training runs that the fit did not see.

Reads the tables that `python -m lab.fit occupancy` reads. The mean of the fitted trainings is scored on the same rows; for
peak memory, so is `trees`, which does not know the allocator. Training runs that ran out of memory are scored separately.

python -m lab.evaluate occupancy --data trainings.csv --label peak_memory --protocol architecture
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import gpus_option, note
from lab.evaluate.common.comparison import ALL, check_rows, compared, each_recipe, held_out_figures, rows_options
from lab.evaluate.occupancy_protocols import FOLDS, PROTOCOLS, cross_validate, peak_memory, train_and_test
from lab.occupancy.fit import reading_options
from lab.occupancy.models import DEFAULT_MODEL, EPOCHS, MODELS, Model
from lab.occupancy.training_jobs import LABELS, TrainingJobs, read_training_jobs

PEAK_MEMORY = "peak-memory"
"""The recipe that knows torch's allocator, of peak memory alone."""


def options(parser: argparse.ArgumentParser) -> None:
    """Which trainings to predict, from which others, and by which model."""
    rows_options(parser, "tables of measured trainings")
    parser.add_argument("--label", default="sm_occupancy", choices=LABELS)
    parser.add_argument(
        "--protocol",
        choices=tuple(PROTOCOLS),
        help="what leaves together: equal networks (layers, default), an architecture, the deepest or the widest quarter",
    )
    parser.add_argument("--folds", type=int, help=f"groups that leave in turn, of --protocol layers (default {FOLDS})")
    parser.add_argument("--recipe", choices=(*MODELS, PEAK_MEMORY, ALL), help="model to fit; all compares them")
    parser.add_argument("--epochs", type=int, default=EPOCHS, help="of dnn-occu")
    reading_options(parser)
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Fit and predict by each model."""
    check_rows(asked, "protocol", "folds")
    if asked.folds is not None and (asked.folds < 2 or asked.protocol not in (None, "layers")):
        raise InputError(f"--folds {asked.folds} applies only to --protocol layers, and is 2 or more")
    if asked.recipe == PEAK_MEMORY and asked.label != "peak_memory":
        raise InputError(f"--recipe {PEAK_MEMORY} predicts no {asked.label}; give --label peak_memory or another recipe")
    catalog, label = load_catalog(asked.gpus), asked.label
    board = None if asked.gpu is None else catalog.resolve(asked.gpu)
    progress.show("reading")
    every = read_training_jobs(asked.test or asked.data, catalog, board)
    tested, crashed = every.labelled(label), every.crashed(label)
    if not tested.samples:
        raise InputError(f"no completed row has a {label} to score; give a table with some")
    known = read_training_jobs(asked.train, catalog, board) if asked.train else every
    fitted = known.labelled(label)
    protocol = None if asked.train else asked.protocol or "layers"
    folds = asked.folds or FOLDS

    def measure(name: str) -> dict[str, Any]:
        def say(line: str) -> None:
            progress.show(f"{name}, {line}")

        apart: dict[str, Any] = {"n": 0}
        if name == PEAK_MEMORY:
            own = None if protocol is None else PROTOCOLS[protocol](every.points, folds, asked.seed)
            answers, crashes = peak_memory(known, every, own, say)
            memory = {"out_of_memory": asdict(crashes)}
        else:
            make = partial(MODELS[name], asked.seed, asked.epochs)
            if protocol is None:
                answers = train_and_test(fitted, tested, label, make)
            else:
                splits = PROTOCOLS[protocol](tested.points, folds, asked.seed)
                answers = cross_validate(tested, label, make, splits, say)
            apart, memory = _apart(fitted, crashed, label, make), {}
        by = {"test": answers.by_test(), "architecture": answers.by("architecture")}
        return {**held_out_figures(answers, by), **memory, "crashed": apart}

    recipes, baselines = [*MODELS], ["mean"]
    if label == "peak_memory":
        recipes, baselines = [PEAK_MEMORY, *recipes], ["trees", *baselines]
    subject = asked.recipe or (PEAK_MEMORY if label == "peak_memory" else DEFAULT_MODEL)
    figures = each_recipe(subject, recipes, baselines, measure)
    if shared := int(tested.points["layers"].isin(set(fitted.points["layers"])).sum()) if asked.train else 0:
        note(f"{shared} of the {len(tested.points)} rows of --test are networks in --train, so this tests no new networks")
    settings = {
        "rows": len(tested.points),
        "networks": int(tested.points["layers"].nunique()),
        "gpus": sorted(set(tested.points["gpu"])),
        "seed": asked.seed,
        "epochs": asked.epochs,
        "folds": asked.folds,
        "left_out": dict(every.left_out) | {"not read, or idle": int(every.points["fits"].sum()) - len(tested.points)},
        **({"train_rows": len(fitted.points)} if asked.train else {}),
    }
    return compared(subject, figures, labels="dcgm", label=label, protocol=protocol, settings=settings)


def _apart(fitted: TrainingJobs, crashed: TrainingJobs, label: str, make: Callable[[], Model]) -> dict[str, Any]:
    """Of trainings that ran out of memory and have the label all the same, by a fit on other networks."""
    if not crashed.samples:
        return {"n": 0}
    others = fitted.only(~fitted.points["layers"].isin(set(crashed.points["layers"])).to_numpy(dtype=bool))
    scores = train_and_test(others, crashed, label, make).figures
    return {"n": scores.n, "mape": scores.mape, "median_ape": scores.median_ape}
