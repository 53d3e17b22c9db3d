"""``epochcast evaluate distributed``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import stdev
from typing import TYPE_CHECKING, Any

import click

from ....regressor import load_catalog
from ...backends.distributed.backend import require_torch
from ...backends.distributed.recipes import RECIPES
from ...backends.distributed.runs import read_runs
from ...errors import InputError
from ...evaluation.report import Line, lines, number, paragraphs, percent, report, within
from ...plain_json import plain_json
from ...tables import figure
from .. import progress, terminal
from ..shared_options import json_option
from .command import ALL, PATH, check_rows, each_recipe, rows_options, say_figures

if TYPE_CHECKING:
    from ...backends.distributed.evaluation import RecipePredictions

_ROWS = 10

_GROUPS = {"MAPE %": number("mape"), "median %": number("median_ape"), "n": number("n"), "regret %": number("regret")}
_COLUMNS = {
    "MAPE %": number("mape"),
    "median %": number("median_ape"),
    "RMSE s": number("rmse"),
    "R2": number("r2"),
    "n": number("n"),
    "answered": percent("coverage"),
    "inside": percent("inside"),
    "regret %": number("regret"),
}


@click.command()
@rows_options("Tables of measured runs")
@click.option(
    "--protocol",
    type=click.Choice(["size", "rows", "gpu"]),
    help="Leave out a model size, learn from a few rows, or leave out a GPU's operators (--data: one table of models measured "
    "end to end). [default: size]",
)
@click.option(
    "--rows",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Number of runs to learn from in each of twelve draws (protocol rows). [default: {_ROWS}]",
)
@click.option("--operators", type=PATH, metavar="PATH", help="Measured operators, a CSV file or a folder (protocol gpu).")
@click.option(
    "--probe",
    type=click.IntRange(min=0),
    metavar="N",
    help="Number of operators measured on the new GPU (protocol gpu). [default: 0]",
)
@click.option(
    "--recipe",
    type=click.Choice([*RECIPES, ALL]),
    default="default",
    show_default=True,
    help="Method of prediction, or `all` to compare them.",
)
@click.option(
    "--plot", type=PATH, metavar="FILE", help="Draw the error by configuration, with baselines (Fig. 2 of the paper)."
)
@click.option("--gpus", type=PATH, metavar="FILE", help="TOML file with GPUs of your own (protocol gpu).")
@json_option
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
    check_rows(data, train, test, protocol=protocol)
    if rows is not None and protocol != "rows":
        raise InputError(f"--rows {rows} belongs to --protocol rows; give both")
    if (protocol == "gpu") != (operators is not None):
        raise InputError("--protocol gpu leaves GPUs out of measured operators; give both it and --operators PATH")
    if probe is not None and protocol != "gpu":
        raise InputError(f"--probe {probe} belongs to --protocol gpu; give both")
    if gpus is not None and protocol != "gpu":
        raise InputError("--gpus belongs to --protocol gpu; give both")
    require_torch()
    if operators is not None:
        if plot is not None:
            raise InputError("--plot draws errors by configuration, which --protocol gpu does not have; leave it out")
        if recipe != "default":
            raise InputError(f"--recipe {recipe} predicts runs, and --protocol gpu compares operator models; leave it out")
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

    evaluator = RunEvaluator(progress.show)
    tested = [run for path in test or data for run in read_runs(path)]
    settings = {"runs": len(tested)}
    measure: Callable[[str], RecipePredictions]
    if train:
        fitted = [run for path in train for run in read_runs(path)]
        settings = {"train_runs": len(fitted), **settings}
        if known := sum(run in fitted for run in tested):
            terminal.note(f"{known} of the {len(tested)} runs of --test are in --train too: no test")
        measure = lambda name: by_split(evaluator, fitted, tested, name)  # noqa: E731
    elif protocol == "rows":
        settings |= {"rows": rows}
        measure = lambda name: by_rows(evaluator, tested, rows, name)  # noqa: E731
    else:
        measure = lambda name: by_size(evaluator, tested, name)  # noqa: E731
    answers = each_recipe(recipe, list(RECIPES), list(RECIPES), measure)
    drawn = settings.get("rows", 0)
    common = {"protocol": None if train else protocol, "settings": settings}
    figures = {name: {"recipe": name, **common, **_figures(name, rows, drawn)} for name, rows in answers.items()}
    if plot is not None:
        from ...figures import save_figure
        from ...figures.errors import errors_figure

        save_figure(errors_figure({name: _errors(rows) for name, rows in answers.items()}), plot)
    say_figures(recipe, figures, as_json, _text)
    return 0


def _figures(recipe: str, answers: RecipePredictions, rows: int) -> dict[str, Any]:
    """The contract's keys, by model size and by the kinds of parallelism that are mixed.

    ``inside`` is the share of runs within the interval that an answer on a measured GPU and precision has.

    Fits on a few ``rows`` test the same runs under several draws: what following a prediction costs is not known of those.
    """
    from ...backends.distributed.evaluation import regret
    from ...backends.distributed.evidence import inside

    by = {key: {name: asdict(scores) for name, scores in answers.by(key).items()} for key in ("size", "parallelism")}
    return {
        **asdict(answers.figures),
        "spread": [draw.mape for draw in answers.by_test().values()] if rows else [],
        "regret": None if rows else regret(answers),
        "inside": inside(answers.measured, answers.predicted, 16, "measured", "calibrated") if recipe == "default" else None,
        "by": by,
    }


def _errors(answers: RecipePredictions) -> dict[tuple[str, tuple[int, int, int]], float]:
    """MAPE by precision and (data, tensor, pipeline)."""
    points = answers.points
    degrees = zip(points["data"], points["tensor"], points["pipeline"], strict=True)
    keys = list(zip(points["precision"], degrees, strict=True))
    by = answers.by([str(key) for key in keys])
    return {key: by[str(key)].mape for key in keys}


def _text(answers: Sequence[Line], detailed: bool) -> str:
    first = answers[0]
    by = {}
    if detailed:
        costs = first["regret"] or {}
        sizes = {size: {**line, "regret": costs.get(size)} for size, line in first["by"]["size"].items()}
        by = {"size": sizes, "parallelism": first["by"]["parallelism"]}
    legend = (
        "inside: share within the 90 % interval; regret: how much longer the configuration predicted to be fastest takes than "
        "the fastest, where it is worst"
    )
    worst = {line["recipe"]: {**line, "regret": max(line["regret"].values()) if line["regret"] else None} for line in answers}
    return report(
        _heading(first),
        worst,
        _COLUMNS,
        by,
        _GROUPS,
        legend=legend if first["regret"] else "",
    )


def _heading(answer: Line) -> str:
    settings, spread = answer["settings"], answer["spread"]
    if "train_runs" in settings:
        return f"fitted on {settings['train_runs']} runs, tested on {settings['runs']} others"
    if answer["protocol"] == "size":
        return f"size: {settings['runs']} runs, each model size predicted by a fit on all others"
    if not spread:
        return f"rows: {settings['runs']} runs, none to learn from"
    return (
        f"rows: {settings['rows']} of {settings['runs']} runs to learn from, tested on the others; {len(spread)} draws, MAPE "
        f"{figure(min(spread))} to {figure(max(spread))}, standard deviation {figure(stdev(spread))}"
    )


def _by_gpu(data: tuple[Path, ...], operators: Path, probe: int, gpus: Path | None, as_json: bool) -> int:
    from ...backends.distributed.operator_time.corpus import read_corpus
    from ...backends.distributed.operator_time.evaluation import evaluate_by_gpu, read_end_to_end
    from ...backends.distributed.operator_time.neusight_workloads import NAMES, operators_of

    if len(data) != 1:
        raise InputError(f"--protocol gpu reads one table of models measured end to end, not {len(data)}; give --data once")
    catalog = load_catalog(gpus)
    measured = read_end_to_end(data[0], catalog, NAMES)
    progress.show("fitting one operator model per GPU")
    evaluation = evaluate_by_gpu(read_corpus(operators, catalog), measured, operators_of, catalog, probe)
    progress.clear()
    answer = {"protocol": "gpu", "probe": probe, **evaluation.summary()}
    terminal.say(plain_json(answer) if as_json else by_gpu_text(answer), as_is=as_json)
    return 0


_METHODS = {"zero": "GPU left out", "probe": "with a probe", "roofline": "roofline", "neusight": "NeuSight"}


def by_gpu_text(answer: Line) -> str:
    """Errors of whole models by GPU and mode, all methods on the same rows, and of single operators."""
    methods = {title: within(name, _with_deviation) for name, title in _METHODS.items() if name in answer["methods"]}
    whole = [(name, {"n": by["zero"]["n"], **by}) for name, by in (*answer["by"].items(), ("all", answer["methods"]))]
    parts = [
        "models end to end, MAPE % (standard deviation over the probes drawn); NeuSight was trained on these GPUs, ours "
        "leave each one out",
        lines("GPU", {"n": number("n"), **methods}, whole),
        f"{100 * answer['inside']:.0f} % lie within the 90 % interval of a GPU that was not measured",
        f"left out: {', '.join(f'{count} rows ({reason})' for reason, count in answer['left_out'].items()) or 'nothing'}",
    ]
    if answer["operators"]:
        columns = {
            "operators": lambda row: str(row["family"]),
            "n": number("n"),
            "MAPE %": number("zero_mape"),
            "median %": number("zero_median"),
            "with a probe": number("probe_mape"),
            "standard deviation": number("probe_sd"),
        }
        parts.append(lines("GPU", columns, [(row["gpu"], row) for row in answer["operators"]]))
    return paragraphs(*parts)


def _with_deviation(figures: Line) -> str:
    if not figures["n"]:
        return "-"
    return figure(figures["mape"]) + (f" ({figures['sd']:.2g})" if "sd" in figures else "")
