"""Compare predicted iteration times on several GPUs with measurements and other recipes.

python -m lab.evaluate distributed --data vtrain_multi_node.csv --protocol rows --rows 10 --recipe all
python -m lab.evaluate distributed --protocol gpu --data end_to_end.csv --operators operators/ --probe 20
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochcast.analyzer.backends.distributed.backend import require_torch
from epochcast.analyzer.charts import save_figure
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
from epochcast.regressor import load_catalog
from lab.commands import gpus_option, note
from lab.distributed.runs import read_runs
from lab.evaluate.common.comparison import ALL, check_rows, compared, each_recipe, rows_options
from lab.figures.errors import errors_figure
from lab.rivals.distributed import RECIPES

if TYPE_CHECKING:
    from lab.evaluate.distributed_protocols import RecipePredictions

_ROWS = 10


def options(parser: argparse.ArgumentParser) -> None:
    """Which runs to predict, from which others, and by which recipe; or which GPUs."""
    rows_options(parser, "tables of measured runs")
    parser.add_argument(
        "--protocol",
        choices=("size", "rows", "gpu"),
        help="leave out a model size (default), learn from a few rows, or leave out a GPU's operators (--data: one table of "
        "models measured end to end)",
    )
    parser.add_argument("--rows", type=int, help=f"runs to learn from in each of twelve draws (protocol rows; default {_ROWS})")
    parser.add_argument("--operators", type=Path, help="measured operators, a CSV file or a folder (protocol gpu)")
    parser.add_argument("--probe", type=int, help="operators measured on the new GPU (protocol gpu; default 0)")
    parser.add_argument("--recipe", default="default", choices=(*RECIPES, ALL), help="method of prediction; all compares")
    parser.add_argument("--plot", type=Path, help="draw the error by configuration, with baselines (Fig. 2 of the paper)")
    gpus_option(parser)


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Fit and predict by each recipe, or for each GPU."""
    check_rows(asked, "protocol")
    if asked.rows is not None and asked.protocol != "rows":
        raise InputError(f"--rows {asked.rows} applies only to --protocol rows; give both")
    if (asked.protocol == "gpu") != (asked.operators is not None):
        raise InputError("--protocol gpu and --operators PATH need each other; give both")
    if asked.operators is None and (asked.probe is not None or asked.gpus):
        raise InputError("--probe and --gpus apply only to --protocol gpu; give both")
    if asked.operators is not None and (asked.plot or asked.recipe != "default" or len(asked.data) != 1):
        raise InputError("--protocol gpu compares operator models on one --data; leave out --plot and --recipe")
    require_torch()
    if asked.operators is not None:
        return _by_gpu(asked.data[0], asked.operators, asked.probe or 0, asked.gpus)
    from lab.evaluate.distributed_protocols import RunEvaluator, by_rows, by_size, by_split

    evaluator = RunEvaluator(progress.show)
    tested = [run for path in asked.test or asked.data for run in read_runs(path)]
    fitted = [run for path in asked.train for run in read_runs(path)]
    protocol = None if fitted else asked.protocol or "size"
    rows = None if protocol != "rows" else _ROWS if asked.rows is None else asked.rows
    if known := sum(run in fitted for run in tested):
        note(f"{known} of the {len(tested)} runs of --test are also in --train, so this tests nothing")
    measure = {
        None: lambda name: by_split(evaluator, fitted, tested, name),
        "rows": lambda name: by_rows(evaluator, tested, rows or 0, name),
        "size": lambda name: by_size(evaluator, tested, name),
    }[protocol]
    answers = each_recipe(asked.recipe, list(RECIPES), RECIPES, measure)
    if asked.plot:
        save_figure(errors_figure({name: _errors(own) for name, own in answers.items()}), asked.plot)
    settings = {
        **({"train_runs": len(fitted)} if fitted else {}),
        "runs": len(tested),
        **({} if rows is None else {"rows": rows}),
    }
    figures = {name: _figures(name, own, bool(rows)) for name, own in answers.items()}
    return compared(asked.recipe, figures, protocol=protocol, settings=settings)


def _by_gpu(data: Path, operators: Path, probe: int, gpus: Path | None) -> dict[str, Any]:
    from lab.distributed.neusight import read_corpus
    from lab.evaluate.distributed_operators import evaluate_by_gpu, read_end_to_end
    from lab.evaluate.neusight_workloads import NAMES, operators_of

    catalog = load_catalog(gpus)
    measured = read_end_to_end(data, catalog, NAMES)
    progress.show("fitting one operator model per GPU")
    evaluation = evaluate_by_gpu(read_corpus(operators, catalog), measured, operators_of, catalog, probe)
    return {"protocol": "gpu", "probe": probe, **evaluation.summary()}


def _figures(recipe: str, answers: RecipePredictions, drawn: bool) -> dict[str, Any]:
    """Scores, and ``spread``: MAPE of each draw; ``regret``: percent that following a prediction costs, by model size, which
    several draws of the same runs do not say; ``inside``: share within the interval of a measured GPU and precision."""
    from lab.evaluate.distributed_operators import inside
    from lab.evaluate.distributed_protocols import regret

    is_ours = recipe == "default"
    return {
        **asdict(answers.figures),
        "spread": [draw.mape for draw in answers.by_test().values()] if drawn else [],
        "regret": None if drawn else regret(answers),
        "inside": inside(answers.measured, answers.predicted, 16, "measured") if is_ours else None,
        "by": {key: {name: asdict(own) for name, own in answers.by(key).items()} for key in ("size", "parallelism")},
    }


def _errors(answers: RecipePredictions) -> dict[tuple[str, tuple[int, int, int]], float]:
    """MAPE by precision and (data, tensor, pipeline)."""
    points = answers.points
    degrees = zip(points["data"], points["tensor"], points["pipeline"], strict=True)
    keys = list(zip(points["precision"], degrees, strict=True))
    by = answers.by([str(key) for key in keys])
    return {key: by[str(key)].mape for key in keys}
