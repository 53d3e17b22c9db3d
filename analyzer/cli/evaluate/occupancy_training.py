"""``epochcast evaluate occupancy`` on trainings that DCGM measured: SM occupancy, SM activity and peak memory."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ....regressor import Catalog
from ...backends.occupancy.models import MODELS
from ...backends.occupancy.predictor import unfitted
from ...backends.occupancy.training_evaluation import (
    FOLDS,
    PROTOCOLS,
    Answers,
    cross_validate,
    peak_memory,
    train_and_test,
)
from ...backends.occupancy.training_jobs import GPU, TrainingJobs, read_training_jobs, recognises
from ...csv_text import parse_csv, read_text
from ...errors import InputError
from .. import progress, terminal
from .command import each_recipe, say_figures
from .report import Line, number, percent, report

PEAK_MEMORY = "peak-memory"
"""The recipe that knows torch's allocator, of peak memory alone."""

_BASELINES = ("mean", "nearest", "boosting")

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


def are_training_jobs(paths: Sequence[Path]) -> bool:
    """Whether the first table is one of trainings that DCGM measured."""
    if not paths or not paths[0].is_file():
        return False
    header = "\n".join(read_text(paths[0]).split("\n", 2)[:2])
    return bool(header.strip()) and recognises(parse_csv(header, str(paths[0])))


def evaluate(
    data: Sequence[Path],
    train: Sequence[Path],
    test: Sequence[Path],
    *,
    label: str,
    protocol: str | None,
    folds: int | None,
    recipe: str | None,
    epochs: int,
    seed: int,
    gpu: str | None,
    catalog: Catalog,
    as_json: bool,
) -> int:
    """Fit and score every recipe that is asked for; raises InputError."""
    if not train and protocol not in (None, *PROTOCOLS):
        raise InputError(f"protocol {protocol} is for other tables; these split by {', '.join(PROTOCOLS)}")
    of_memory = label == "peak_memory"
    recipe = recipe or (PEAK_MEMORY if of_memory else "trees")
    if recipe == PEAK_MEMORY and not of_memory:
        raise InputError(f"--recipe {PEAK_MEMORY} predicts no {label}; give --label peak_memory or another recipe")
    board = catalog.resolve(gpu or GPU)
    progress.show("reading")
    every = read_training_jobs(test or data, board)
    tested, crashed = every.labelled(label), every.crashed(label)
    known = read_training_jobs(train, board) if train else every
    fitted = known.labelled(label)
    protocol = None if train else protocol or "layers"
    splits = [] if protocol is None else PROTOCOLS[protocol](tested.points, folds or FOLDS, seed)

    def measure(name: str) -> dict[str, Any]:
        def tell(line: str) -> None:
            progress.show(f"{name}, {line}")

        if name == PEAK_MEMORY:
            own = None if protocol is None else PROTOCOLS[protocol](every.points, folds or FOLDS, seed)
            answers, crashes = peak_memory(known, every, own, tell)
            return _figures(answers) | {"out_of_memory": vars(crashes), "crashed": {"n": 0}}
        # Labels span powers of ten, so that all models learn their logarithms.
        make = partial(unfitted, name, {"seed": seed, "epochs": epochs, "target": "seconds"})
        answers = (
            train_and_test(fitted, tested, label, make)
            if protocol is None
            else cross_validate(tested, label, make, splits, tell)
        )
        return _figures(answers) | {"crashed": _apart(fitted, crashed, label, make)}

    recipes = [PEAK_MEMORY, *MODELS] if of_memory else list(MODELS)
    answers = each_recipe(recipe, recipes, ["trees", *_BASELINES] if of_memory else list(_BASELINES), measure)
    if train and (shared := int(tested.points["layers"].isin(set(fitted.points["layers"])).sum())):
        terminal.note(f"{shared} of the {len(tested.points)} rows of --test are networks of --train: no test of new networks")
    common = {
        "labels": "dcgm",
        "label": label,
        "protocol": protocol,
        "settings": {
            "rows": len(tested.points),
            "networks": int(tested.points["layers"].nunique()),
            "gpus": [board.name],
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


def _apart(fitted: TrainingJobs, crashed: TrainingJobs, label: str, make: Any) -> dict[str, Any]:
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
    return report(heading, answers, _COLUMNS, by, _GROUPS)
