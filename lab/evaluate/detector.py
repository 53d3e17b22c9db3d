"""``python -m lab.evaluate detector``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import click

import lab.rivals.detection  # noqa: F401 (makes them known)
from epochcast.analyzer.cli import progress, terminal
from epochcast.analyzer.cli.shared_options import json_option
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.plain_json import plain_json
from epochcast.analyzer.traces.trace import Trace
from epochcast.detector import METHODS, Detection
from epochcast.detector import InputError as DetectorInputError
from epochcast.detector import detect as find_epochs
from epochcast.detector.labels import Labels
from lab.evaluate.common.comparison import ALL
from lab.evaluate.detection import (
    RESOLVED,
    TraceScore,
    by_threshold,
    evaluate_trace,
    macro_average,
    reliability,
    resolved,
    score_regimes,
    summarise,
)
from lab.evaluate.detector_text import compared, labels_text, mlperf_text, regimes_text, skipped

#: Upper bounds [s] of the median interval between samples, and [samples] of the true period, by which traces are grouped.
_INTERVALS = {"up to 0.5 s": 0.5, "0.5 to 5 s": 5.0, "5 to 20 s": 20.0, "over 20 s": float("inf")}
_SAMPLES = {"under 3": 3.0, "3 to 10": 10.0, "10 to 30": 30.0, "30 and more": float("inf")}

_PATH = click.Path(path_type=Path)

_Load = Callable[[], tuple[Trace, Labels]]
_Result = TypeVar("_Result")


@click.command()
@click.option(
    "--data",
    type=_PATH,
    multiple=True,
    metavar="PATH",
    help="Corpus, or folder of traces, each with its NAME.json (repeatable); for mlperf, a file of power readings.",
)
@click.option("--events", type=_PATH, metavar="FILE", help="Events of the same runs (protocol mlperf).")
@click.option(
    "--regimes",
    type=_PATH,
    metavar="DIR",
    help="Folder of labelled traces whose period changes, so that no single period is right.",
)
@click.option(
    "--protocol",
    type=click.Choice(["labels", "mlperf"]),
    default="labels",
    show_default=True,
    help="Compare with each trace's epoch marks, or with MLPerf runs from their node power.",
)
@click.option(
    "--recipe",
    type=click.Choice([*METHODS, ALL]),
    metavar="NAME",
    default="track",
    show_default=True,
    help=f"Detection method: {', '.join(METHODS)} or {ALL} (compares them).",
)
@click.option(
    "--clock",
    type=click.Choice(["auto", "wall", "work"]),
    default="auto",
    show_default=True,
    help="Whether epochs are equal in time (wall) or in work done.",
)
@json_option
def detector(
    data: tuple[Path, ...],
    events: Path | None,
    regimes: Path | None,
    protocol: str,
    recipe: str,
    clock: Literal["auto", "wall", "work"],
    as_json: bool,
) -> int:
    """Compare detected epoch periods with true ones and the trivial answer "length / 10".

    \b
    Example: python -m lab.evaluate detector --data recordings/
             python -m lab.evaluate detector --data recordings/ --regimes changing/
             python -m lab.evaluate detector --protocol mlperf --data power.csv.gz \\
                 --events events.csv.gz
    """
    if not data and regimes is None:
        raise InputError("nothing to evaluate: give --data PATH, --regimes DIR, or both")
    methods = list(METHODS) if recipe == ALL else [recipe]
    changing = {} if regimes is None else {"regimes": _regimes(regimes, methods[0], clock)}
    if not data:
        terminal.say(plain_json(changing) if as_json else regimes_text(changing["regimes"]), as_is=as_json)
        return 0

    def scored(name: str, trace: Trace, labels: Labels) -> list[TraceScore]:
        metrics = trace.metrics()
        return [evaluate_trace(name, trace.time, metrics, labels, method=each, clock=clock) for each in methods]

    each_trace, unusable = _usable(_traces(data, events, protocol), scored)
    scores = {name: [own[number] for own in each_trace] for number, name in enumerate(methods)}
    rows = scores[methods[0]]
    if len(methods) == 1 and all(row.reason is not None for row in rows):
        raise InputError(f"method {recipe!r} refused each of the {len(rows)} traces, {rows[0].name!r} with: {rows[0].reason}")
    answer = {"labels": _labels_answer, "mlperf": _mlperf_answer}[protocol]
    answers = [
        {"recipe": name, "protocol": protocol, "clock": clock, **answer(scored), "unusable": unusable, **changing}
        for name, scored in scores.items()
    ]
    if as_json:
        terminal.say(plain_json(answers[0] if len(answers) == 1 else answers), as_is=True)
        return 0
    if len(answers) > 1:
        terminal.say(compared(answers, scores))
    else:
        terminal.say((labels_text if protocol == "labels" else mlperf_text)(answers[0], rows))
    if unusable:
        terminal.say(f"\n{skipped(unusable)}")
    if changing:
        terminal.say(f"\n{regimes_text(changing['regimes'])}")
    return 0


def _traces(data: Sequence[Path], events: Path | None, protocol: str) -> Iterator[tuple[str, _Load]]:
    from lab.corpus.labelled_traces import held, labelled_files
    from lab.evaluate.mlperf import mlperf_runs

    if protocol == "labels":
        if events is not None:
            raise InputError("--events applies only to --protocol mlperf; leave it out, or choose that protocol")
        # Several corpora may hold runs of one name.
        return (
            (name if len(data) == 1 else str(folder / name), load) for folder in data for name, load in labelled_files(folder)
        )
    if events is None:
        raise InputError("--protocol mlperf needs the events of the same runs: give --events FILE")
    if len(data) > 1:
        raise InputError(f"--protocol mlperf reads one file of power readings, not {len(data)}; give --data once")
    return ((name, partial(held, trace, labels)) for name, trace, labels in mlperf_runs(data[0], events))


def _usable(
    traces: Iterable[tuple[str, _Load]], use: Callable[[str, Trace, Labels], _Result]
) -> tuple[list[_Result], list[dict[str, str]]]:
    """What `use` makes of every trace that can be used, and the name of each other one with the reason.

    One trace is held at a time: a folder may be larger than the memory.

    Raises:
        InputError: none can be used.
    """
    results, unusable = [], []
    try:
        for number, (name, load) in enumerate(traces, start=1):
            progress.show(f"trace {number}, {name}")
            try:
                results.append(use(name, *load()))
            except (InputError, DetectorInputError) as error:
                unusable.append({"name": name, "why": str(error)})
    finally:
        progress.clear()
    if not results:
        raise InputError(
            f"none of the {len(unusable)} traces can be used, {unusable[0]['name']!r} because: {unusable[0]['why']}"
        )
    return results, unusable


def _regimes(folder: Path, method: str, clock: Literal["auto", "wall", "work"]) -> dict[str, Any]:
    from lab.corpus.labelled_traces import labelled_files

    def detected(name: str, trace: Trace, labels: Labels) -> tuple[str, tuple[Detection, Labels]]:
        return name, (find_epochs(trace.time, trace.metrics(), method=method, clock=clock), labels)

    results, unusable = _usable(labelled_files(folder), detected)
    return {**score_regimes(dict(results)), "unusable": unusable}


def _labels_answer(rows: list[TraceScore]) -> dict[str, Any]:
    training = [row for row in rows if row.samples_per_epoch is not None]
    return {
        **summarise(rows),
        "confidence": {"thresholds": by_threshold(rows), "reliability": reliability(rows)},
        "by": {
            "class": _summaries(rows, lambda row: row.cls),
            "clock": _summaries(rows, lambda row: row.clock),
            "interval": _summaries(rows, lambda row: _bin(round(row.sample_s, 2), _INTERVALS, inclusive=True)),
            "samples_per_epoch": _summaries(training, lambda row: _bin(row.samples_per_epoch or 0.0, _SAMPLES)),
            "repository": _summaries([row for row in rows if row.repo], lambda row: row.repo or ""),
            "origin": {
                name: {**summarise(group), "reliability": reliability(group)}
                for name, group in _grouped(rows, lambda row: "simulated" if row.simulated else "real").items()
            },
            "trace": {row.name: asdict(row) for row in rows},
        },
    }


def _bin(value: float, bounds: Mapping[str, float], *, inclusive: bool = False) -> str:
    return next(name for name, bound in bounds.items() if value < bound or (inclusive and value == bound))


def _summaries(rows: list[TraceScore], key: Callable[[TraceScore], str]) -> dict[str, Any]:
    return {name: summarise(group) for name, group in _grouped(rows, key).items()}


def _mlperf_answer(rows: list[TraceScore]) -> dict[str, Any]:
    """Figures of the runs whose period is at least three samples long; the rest must have got no answer."""
    scored = [row for row in rows if resolved(row)]
    rest = [row for row in rows if not resolved(row)]
    if not scored:
        raise InputError(f"none of the {len(rows)} runs has a period of at least {RESOLVED} samples: nothing can be scored")
    cells = _grouped(scored, lambda row: row.name.rpartition("/")[0])
    benchmarks = {}
    for name, group in _grouped(scored, lambda row: row.cls).items():
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


def _grouped(rows: list[TraceScore], key: Callable[[TraceScore], str]) -> dict[str, list[TraceScore]]:
    groups: dict[str, list[TraceScore]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return dict(sorted(groups.items()))
