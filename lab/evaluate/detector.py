"""Compare detected epoch periods with true ones and the trivial answer "length / 10".

python -m lab.evaluate detector --data recordings/ --regimes changing/
python -m lab.evaluate detector --protocol mlperf --data power.csv.gz --events events.csv.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import lab.rivals.detection  # noqa: F401 (makes them known)
from epochcast.analyzer.cli import progress
from epochcast.analyzer.errors import InputError
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

#: Upper bounds [s] of the median interval between samples, and [samples] of the true period, by which traces are grouped.
_INTERVALS = {"up to 0.5 s": 0.5, "0.5 to 5 s": 5.0, "5 to 20 s": 20.0, "over 20 s": float("inf")}
_SAMPLES = {"under 3": 3.0, "3 to 10": 10.0, "10 to 30": 30.0, "30 and more": float("inf")}

_Load = Callable[[], tuple[Trace, Labels]]
_Result = TypeVar("_Result")


def options(parser: argparse.ArgumentParser) -> None:
    """Which traces, and by which method."""
    parser.add_argument(
        "--data",
        type=Path,
        action="append",
        default=[],
        help="corpus, or folder of traces, each with its NAME.json (repeatable); for mlperf, a file of power readings",
    )
    parser.add_argument("--events", type=Path, help="events of the same runs (protocol mlperf)")
    parser.add_argument("--regimes", type=Path, help="folder of labelled traces whose period changes")
    parser.add_argument(
        "--protocol",
        choices=("labels", "mlperf"),
        default="labels",
        help="compare with each trace's epoch marks, or with MLPerf runs from their node power",
    )
    parser.add_argument("--recipe", choices=(*METHODS, ALL), default="track", help="detection method; all compares them")
    parser.add_argument(
        "--clock", choices=("auto", "wall", "work"), default="auto", help="whether epochs are equal in time or in work done"
    )


def study(asked: argparse.Namespace) -> dict[str, Any] | list[dict[str, Any]]:
    """Detect by each method, and compare with the labels."""
    if not asked.data and asked.regimes is None:
        raise InputError("nothing to evaluate: give --data PATH, --regimes DIR, or both")
    methods = list(METHODS) if asked.recipe == ALL else [asked.recipe]
    changing = {} if asked.regimes is None else {"regimes": _regimes(asked.regimes, methods[0], asked.clock)}
    if not asked.data:
        return changing

    def scored(name: str, trace: Trace, labels: Labels) -> list[TraceScore]:
        metrics = trace.metrics()
        return [evaluate_trace(name, trace.time, metrics, labels, method=each, clock=asked.clock) for each in methods]

    each_trace, unusable = _usable(_traces(asked.data, asked.events, asked.protocol), scored)
    scores = {name: [own[number] for own in each_trace] for number, name in enumerate(methods)}
    rows = scores[methods[0]]
    if len(methods) == 1 and all(row.reason is not None for row in rows):
        raise InputError(
            f"method {asked.recipe!r} refused each of the {len(rows)} traces, {rows[0].name!r} with: {rows[0].reason}"
        )
    answer = {"labels": _labels_answer, "mlperf": _mlperf_answer}[asked.protocol]
    common = {"protocol": asked.protocol, "clock": asked.clock}
    answers = [
        {"recipe": name, **common, **answer(scored), "unusable": unusable, **changing} for name, scored in scores.items()
    ]
    return answers[0] if len(answers) == 1 else answers


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
