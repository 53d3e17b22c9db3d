"""``epochcast evaluate detector``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import click

from ....detector import METHODS
from ....detector.evaluation import (
    RESOLVED,
    Labels,
    TraceScore,
    by_threshold,
    evaluate_trace,
    macro_average,
    reliability,
    resolved,
    summarise,
)
from ...errors import InputError
from ...plain_json import plain_json
from ...trace import Trace
from .. import progress
from .detector_report import compared, labels_report, mlperf_report


@click.command()
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    required=True,
    multiple=True,
    metavar="PATH",
    help="labels: a corpus, or a folder of traces, each with NAME.json beside it (repeatable); mlperf: file of power readings.",
)
@click.option("--events", type=click.Path(path_type=Path), metavar="FILE", help="mlperf: the events of the same runs.")
@click.option(
    "--protocol",
    type=click.Choice(["labels", "mlperf"]),
    default="labels",
    show_default=True,
    help="True epoch marks beside each trace; MLPerf node power, an average of (system, benchmark) cells.",
)
@click.option(
    "--recipe",
    "method",
    type=click.Choice([*METHODS, "all"]),
    default="track",
    show_default=True,
    help="Detection method, or `all` to compare them.",
)
@click.option(
    "--clock",
    type=click.Choice(["auto", "wall", "work"]),
    default="auto",
    show_default=True,
    help="Find equal spans of time or of work done.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def detector(
    data: tuple[Path, ...],
    events: Path | None,
    protocol: str,
    method: str,
    clock: Literal["auto", "wall", "work"],
    as_json: bool,
) -> int:
    """Detected against true epoch periods, beside the trivial answer "length / 10".

    \b
    Example: epochcast evaluate detector --data recordings/
             epochcast evaluate detector --protocol mlperf --data power.csv.gz --events events.csv.gz
    """
    methods = list(METHODS) if method == "all" else [method]
    scores = _scores(_traces(data, events, protocol), methods, clock)
    rows = scores[methods[0]]
    if len(methods) == 1 and all(row.reason is not None for row in rows):
        raise InputError(f"method {method!r} refused each of the {len(rows)} traces, {rows[0].name!r} with: {rows[0].reason}")
    answer = {"labels": _labels_answer, "mlperf": _mlperf_answer}[protocol]
    answers = [{"recipe": name, "protocol": protocol, "clock": clock, **answer(scored)} for name, scored in scores.items()]
    if as_json:
        click.echo(plain_json(answers[0] if len(answers) == 1 else answers))
    elif len(answers) > 1:
        click.echo(compared(answers, scores))
    else:
        click.echo((labels_report if protocol == "labels" else mlperf_report)(answers[0], rows))
    return 0


def _traces(data: Sequence[Path], events: Path | None, protocol: str) -> Iterator[tuple[str, Trace, Labels]]:
    from ...labels import labelled_traces, mlperf_runs

    if protocol == "labels":
        if events is not None:
            raise InputError("--events belongs to --protocol mlperf; leave it out, or name that protocol")
        # Several corpora may hold runs of one name.
        return (
            (name if len(data) == 1 else str(folder / name), trace, labels)
            for folder in data
            for name, trace, labels in labelled_traces(folder)
        )
    if events is None:
        raise InputError("--protocol mlperf needs the events of the same runs: give --events FILE")
    if len(data) > 1:
        raise InputError(f"--protocol mlperf reads one file of power readings, not {len(data)}; give --data once")
    return mlperf_runs(data[0], events)


def _scores(
    traces: Iterable[tuple[str, Trace, Labels]], methods: list[str], clock: Literal["auto", "wall", "work"]
) -> dict[str, list[TraceScore]]:
    """Method -> one score per trace. One trace is held at a time: a folder may be larger than the memory."""
    scores: dict[str, list[TraceScore]] = {name: [] for name in methods}
    try:
        for number, (name, trace, labels) in enumerate(traces, start=1):
            metrics = trace.metrics()
            for method in methods:
                progress.show(f"trace {number}, {name}: {method}")
                try:
                    score = evaluate_trace(name, trace.time, metrics, labels, method=method, clock=clock)
                except ValueError as error:
                    raise InputError(f"{name}: {error}") from error
                scores[method].append(score)
    finally:
        progress.clear()
    return scores


def _labels_answer(rows: list[TraceScore]) -> dict[str, Any]:
    return {
        **summarise(rows),
        "confidence": {"thresholds": by_threshold(rows), "reliability": reliability(rows)},
        "by": {
            "class": {name: summarise(group) for name, group in _grouped(rows, [row.cls for row in rows]).items()},
            "clock": {name: summarise(group) for name, group in _grouped(rows, [row.clock for row in rows]).items()},
            "trace": {row.name: asdict(row) for row in rows},
        },
    }


def _mlperf_answer(rows: list[TraceScore]) -> dict[str, Any]:
    """Figures of the runs whose period is at least three samples long; the rest must have got no answer."""
    scored = [row for row in rows if resolved(row)]
    rest = [row for row in rows if not resolved(row)]
    if not scored:
        raise InputError(f"none of the {len(rows)} runs has a period of at least {RESOLVED} samples: nothing can be scored")
    cells = _grouped(scored, [row.name.rpartition("/")[0] for row in scored])
    benchmarks = {}
    for name, group in _grouped(scored, [row.cls for row in scored]).items():
        own = {cell: runs for cell, runs in cells.items() if runs[0].cls == name}
        benchmarks[name] = {**summarise(group), "macro": macro_average(own)}
    return {
        **summarise(scored),
        "macro": macro_average(cells),
        "rest": _rest(rest),
        "confidence": {"thresholds": by_threshold(scored), "reliability": reliability(scored)},
        "by": {
            "benchmark": benchmarks,
            "cell": {name: summarise(group) for name, group in cells.items()},
            "trace": {row.name: asdict(row) for row in rows},
        },
    }


def _rest(rows: list[TraceScore]) -> dict[str, int]:
    if not rows:
        return {"n": 0, "answered": 0, "steps": 0, "confident_wrong": 0}
    line = summarise(rows)
    return {key: int(line[key] or 0) for key in ("n", "answered", "steps", "confident_wrong")}


def _grouped(rows: list[TraceScore], keys: list[str]) -> dict[str, list[TraceScore]]:
    groups: dict[str, list[TraceScore]] = {}
    for key, row in zip(keys, rows, strict=True):
        groups.setdefault(key, []).append(row)
    return dict(sorted(groups.items()))
