"""``epochcast evaluate distributed``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from ....regressor import load_catalog
from ....regressor.scoring import score
from ...backends.distributed.question import require_torch
from ...backends.distributed.recipes import RECIPES
from ...backends.distributed.runs import read_runs
from ...errors import InputError
from ...plain_json import plain_json
from .. import progress, terminal
from .data_or_split import check_data_or_split
from .distributed_report import by_gpu_report, compared, report

if TYPE_CHECKING:
    from ...backends.distributed.evaluation import Answers

_PATH = click.Path(path_type=Path)
_ROWS = 10


@click.command()
@click.option(
    "--data",
    type=_PATH,
    multiple=True,
    metavar="CSV",
    help="Measured runs (repeatable); for protocol gpu, models measured end to end.",
)
@click.option("--train", type=_PATH, multiple=True, metavar="CSV", help="Runs to fit on, with --test (repeatable).")
@click.option("--test", type=_PATH, multiple=True, metavar="CSV", help="Tables to test on, with --train (repeatable).")
@click.option(
    "--protocol",
    type=click.Choice(["size", "rows", "gpu"]),
    help="Leave out a model size, learn from a few rows, or leave out a GPU's operators. [default: size]",
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Number of runs to learn from in each of twelve draws (protocol rows). [default: {_ROWS}]",
)
@click.option("--operators", type=_PATH, metavar="PATH", help="Measured operators, a CSV file or a folder (protocol gpu).")
@click.option(
    "--probe",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of operators measured on the new GPU (protocol gpu). [default: 0]",
)
@click.option(
    "--recipe",
    type=click.Choice([*RECIPES, "all"]),
    default="default",
    show_default=True,
    help="Method of prediction, or `all` to compare them.",
)
@click.option(
    "--plot", type=_PATH, metavar="FILE", help="Draw the error by configuration, with baselines (Fig. 2 of the paper)."
)
@click.option("--gpus", type=_PATH, metavar="FILE", help="TOML file with GPUs of your own (protocol gpu).")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def distributed(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    protocol: str | None,
    rows: int | None,
    operators: Path | None,
    probe: int | None,
    recipe: str,
    plot: Path | None,
    gpus: Path | None,
    as_json: bool,
) -> int:
    """Compare predicted with measured iterations on several GPUs, next to the recipes that others use.

    \b
    Example: epochcast evaluate distributed --data vtrain_multi_node.csv
             epochcast evaluate distributed --data vtrain_multi_node.csv \\
                 --protocol rows --rows 10 --recipe all
             epochcast evaluate distributed --train old.csv --test new.csv \\
                 --plot errors.png
             epochcast evaluate distributed --protocol gpu --data end_to_end.csv \\
                 --operators operators/ --probe 20
    """
    check_data_or_split(data, train, test, protocol)
    if rows is not None and protocol != "rows":
        raise InputError(f"--rows {rows} belongs to --protocol rows; give both")
    if (protocol == "gpu") != (operators is not None):
        raise InputError("--protocol gpu leaves GPUs out of measured operators; give both it and --operators PATH")
    if probe is not None and protocol != "gpu":
        raise InputError(f"--probe {probe} belongs to --protocol gpu; give both")
    require_torch()
    if operators is not None:
        if plot is not None:
            raise InputError("--plot draws errors by configuration, which --protocol gpu does not have; leave it out")
        return _by_gpu(data, operators, probe or 0, gpus, as_json)
    return _by_runs(data, train, test, protocol or "size", _ROWS if rows is None else rows, recipe, plot, as_json)


def _by_runs(
    data: tuple[Path, ...],
    train: tuple[Path, ...],
    test: tuple[Path, ...],
    protocol: str,
    rows: int,
    recipe: str,
    plot: Path | None,
    as_json: bool,
) -> int:
    from ...backends.distributed.evaluation import RunEvaluator, by_rows, by_size, by_split

    fitted, *others = ([run for path in paths for run in read_runs(path)] for paths in (data, train, test) if paths)
    evaluator = RunEvaluator(progress.show)
    measure: Callable[[str], Answers]
    if others:
        settings = {"train_runs": len(fitted), "runs": len(others[0])}
        if known := sum(run in fitted for run in others[0]):
            terminal.note(f"{known} of the {len(others[0])} runs of --test are in --train too: no test")
        measure = lambda name: by_split(evaluator, fitted, others[0], name)  # noqa: E731
    elif protocol == "rows":
        settings = {"runs": len(fitted), "rows": rows}
        measure = lambda name: by_rows(evaluator, fitted, rows, name)  # noqa: E731
    else:
        settings = {"runs": len(fitted)}
        measure = lambda name: by_size(evaluator, fitted, name)  # noqa: E731
    first = "default" if recipe == "all" else recipe
    answers = {name: measure(name) for name in [first, *(name for name in RECIPES if name != first)]}
    progress.clear()
    named = None if others else protocol
    figures = {name: {"recipe": name, "protocol": named, **_figures(one, settings)} for name, one in answers.items()}
    if plot is not None:
        from ...figures import save_figure
        from ...figures.errors_by_configuration import errors_figure

        save_figure(errors_figure({name: _errors(one) for name, one in answers.items()}), plot)
    if recipe == "all":
        terminal.say(plain_json(list(figures.values())) if as_json else compared(list(figures.values())), as_is=as_json)
        return 0
    answer = figures[recipe] | {"baselines": {name: one for name, one in figures.items() if name != recipe}}
    terminal.say(plain_json(answer) if as_json else report(answer), as_is=as_json)
    return 0


def _figures(answers: Answers, settings: Mapping[str, int]) -> dict[str, Any]:
    """The contract's keys, by model size and by the kinds of parallelism that are mixed."""
    from ...backends.distributed.evaluation import regret

    by = {key: answers.by(key) for key in ("size", "parallelism")}
    draws = list(answers.by_test().values()) if settings.get("rows") else []
    return {
        **asdict(answers.figures),
        "spread": [draw.mape for draw in draws],
        "regret": None if draws else regret(answers),
        "by": {key: {name: asdict(scores) for name, scores in groups.items()} for key, groups in by.items()},
        "settings": dict(settings),
    }


def _errors(answers: Answers) -> dict[tuple[str, tuple[int, int, int]], float]:
    """MAPE by precision and (data, tensor, pipeline)."""
    points = answers.points
    degrees = zip(points["data"], points["tensor"], points["pipeline"], strict=True)
    keys = list(zip(points["precision"], degrees, strict=True))
    by = answers.by([str(key) for key in keys])
    return {key: by[str(key)].mape for key in keys}


def _by_gpu(data: tuple[Path, ...], operators: Path, probe: int, gpus: Path | None, as_json: bool) -> int:
    from ...backends.distributed.operator_time.corpus import read_corpus
    from ...backends.distributed.operator_time.evaluation import evaluate_by_gpu, read_end_to_end
    from ...backends.distributed.operator_time.neusight_workloads import NAMES, operators_of

    if len(data) != 1:
        raise InputError(f"--protocol gpu reads one table of models measured end to end, not {len(data)}; give --data once")
    catalog = load_catalog(gpus)
    measured = read_end_to_end(data[0], catalog, NAMES)
    progress.show("fitting one operator model per GPU")
    found = evaluate_by_gpu(read_corpus(operators, catalog), measured, operators_of, catalog, probe)
    progress.clear()
    columns = [f"probe_{draw}" for draw in range(found.draws)] if probe else ["zero"]
    rows = found.end_to_end.dropna(subset=columns)
    scores = score(np.tile(rows["seconds"], len(columns)), rows[columns].to_numpy(dtype=float).T.ravel())
    answer = {"protocol": "gpu", "probe": probe, **found.summary(), "rmse": scores.rmse, "r2": scores.r2}
    terminal.say(plain_json(answer) if as_json else by_gpu_report(answer), as_is=as_json)
    return 0
