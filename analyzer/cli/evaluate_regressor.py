"""``epochcast evaluate regressor``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ..errors import InputError
from . import progress
from .tables import figure, table


@click.command()
@click.option("--data", type=click.Path(path_type=Path), metavar="FILE", help="A corpus, split by the protocol.")
@click.option("--train", type=click.Path(path_type=Path), metavar="FILE", help="Fit on this corpus and …")
@click.option("--test", type=click.Path(path_type=Path), metavar="FILE", help="… test on pairs within this one.")
@click.option("--protocol", help="P2 new workload, P1 random rows (leaks), P3 new architecture, P4 new GPU. [default: P2]")
@click.option("--recipe", default="default", show_default=True, help="Recipe to fit, or `all` to compare them.")
@click.option("--seeds", type=click.IntRange(1, 5), help="Shuffles of the groups (P1, P2). [default: 5, slow recipes 1]")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def regressor(
    data: Path | None,
    train: Path | None,
    test: Path | None,
    protocol: str | None,
    recipe: str,
    seeds: int | None,
    as_json: bool,
) -> int:
    """Predicted against measured latency on other GPUs, per source GPU.

    \b
    Example: epochcast evaluate regressor --data cloud_hw_trainpred.csv --protocol P3
    """
    from ...regressor import RECIPES, load_catalog, load_corpus
    from ...regressor import evaluate as score
    from ...regressor import evaluate_split as score_split

    if (data is None) == (train is None) or (train is None) != (test is None):
        raise InputError("give either --data FILE or both --train FILE and --test FILE")
    if train is not None and protocol is not None:
        raise InputError("--protocol splits one corpus; with --train and --test there is nothing to split, leave it out")
    catalog = load_catalog()
    shuffles = None if seeds is None else range(seeds)
    answers: list[dict[str, Any]] = []
    for name in RECIPES if recipe == "all" else [recipe]:
        if data is not None:
            result = score(
                load_corpus(data), catalog, protocol=protocol or "P2", recipe=name, seeds=shuffles, progress=_progress
            )
        else:
            assert train is not None
            assert test is not None
            result = score_split(load_corpus(train), load_corpus(test), catalog, recipe=name)
        answers.append(result.to_json())
    progress.clear()
    status = 0 if any(answer["n"] for answer in answers) else 1  # a recipe may have no answer for a protocol
    if as_json:
        click.echo(json.dumps(answers[0] if len(answers) == 1 else answers, indent=2))
        return status
    header = ("recipe", "MAPE %", "median %", "RMSE s", "R2", "n", "coverage", "in 90 % interval", "MAPE % by source GPU")
    keys = ("mape", "median_ape", "rmse", "r2", "n", "coverage", "interval_coverage")
    click.echo(
        table(
            header,
            [(answer["recipe"], *(figure(answer[key]) for key in keys), _by_source(answer["by"])) for answer in answers],
        )
    )
    return status


def _by_source(by: dict[str, dict[str, float | None]]) -> str:
    return ", ".join(f"{gpu} {figure(figures['mape'])}" for gpu, figures in by.items())


def _progress(done: int, fits: int) -> None:
    progress.show(f"fit {done + 1} of {fits}")
