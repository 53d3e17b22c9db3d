"""``epochcast evaluate``: accuracy by the project's own protocols."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from ..errors import InputError
from . import progress
from .tables import table


@click.group()
def evaluate() -> None:
    """Measure accuracy by the project's own protocols, which group by workload or trace and never leak."""


@evaluate.command()
@click.option(
    "--data", type=click.Path(path_type=Path), required=True, metavar="DIR", help="Traces, each with NAME.json beside it."
)
@click.option("--protocol", type=click.Choice(["labels"]), default="labels", show_default=True, help="True epoch marks.")
@click.option("--recipe", "method", default="track", show_default=True, help="Detection method.")
@click.option(
    "--clock",
    type=click.Choice(["auto", "wall", "work"]),
    default="auto",
    show_default=True,
    help="Find equal spans of time or of work done.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def detector(data: Path, protocol: str, method: str, clock: Literal["auto", "wall", "work"], as_json: bool) -> int:
    """Detected against true epoch periods, beside the trivial answer "length / 10".

    \b
    Example: epochcast evaluate detector --data recordings/
    """
    from ...detector import detect
    from ...detector.evaluation import score_trace, summarise
    from ..labels import labelled_traces

    rows = []
    for name, trace, labels in labelled_traces(data):
        metrics = trace.metrics()
        rows.append(score_trace(name, detect(trace.time, metrics, method=method, clock=clock), labels, trace.time, metrics))
    by = {row.name: asdict(row) for row in rows}
    summary = {"recipe": method, "protocol": protocol, "clock": clock, **summarise(rows), "by": by}
    if as_json:
        click.echo(json.dumps(summary, indent=2))
        return 0
    header = ("trace", "verdict", "clock", "true s", "found s", "error %", "length/10 %", "F1", "confidence")
    figures = [
        (row.true_period, row.found_period, row.error, row.baseline_error, row.boundary_f1, row.confidence) for row in rows
    ]
    cells = [(row.name, row.verdict, row.clock, *map(_figure, line)) for row, line in zip(rows, figures, strict=True)]
    click.echo(table(header, cells))
    click.echo(_line(summary, ("n", "coverage", "within_5", "mape", "median_ape", "boundary_f1", "n_other", "false_alarms")))
    click.echo(_line(summary, ("baseline_within_5", "baseline_mape", "baseline_median_ape")))
    return 0


@evaluate.command()
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
            [(answer["recipe"], *(_figure(answer[key]) for key in keys), _by_source(answer["by"])) for answer in answers],
        )
    )
    return status


def _by_source(by: dict[str, dict[str, float | None]]) -> str:
    return ", ".join(f"{gpu} {_figure(figures['mape'])}" for gpu, figures in by.items())


def _progress(done: int, fits: int) -> None:
    progress.show(f"fit {done + 1} of {fits}")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _line(summary: dict[str, Any], keys: tuple[str, ...]) -> str:
    return "  ".join(f"{key} {_figure(summary[key])}" for key in keys)
