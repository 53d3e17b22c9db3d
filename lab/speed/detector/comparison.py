"""All detection methods on the same traces, by two protocols: the honest one and the paper's own.

    EPOCHCAST_SHARED=../shared python -m lab.speed.detector.comparison [--seed 60000] [--per-class 2] [--methods track,paper]

Honest: traces as they were recorded or simulated, uncropped, with any number of epochs; the truth is the median distance of the
true epoch starts, and a trace without an answer is a miss in "within 5 %". The paper's own: each trace is cropped with its true
marks to exactly ten epochs, and the truth is their total length / 10. Boundary errors are in samples.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import lab.rivals.detection  # noqa: F401 (makes them known)
from epochcast.detector import METHODS
from epochcast.detector.job import ClockChoice
from epochcast.detector.labels import Labels
from lab.evaluate.detection import RESOLVED, TraceScore, evaluate_trace, macro_average, period_error, summarise
from lab.simulator import simulate
from lab.speed.detector.traces import (
    CPU_TRAININGS,
    HIDDEN,
    OTHER,
    REAL,
    VISIBLE,
    LabelledTrace,
    mlperf,
    of_simulation,
    recorded,
    simulated,
)
from lab.speed.page import DETECTOR, markdown_table, options, publish

#: Epochs that the paper's runs have, and numbers next to it.
PAPERS_EPOCHS = 10
OTHER_NUMBERS = (3, 5, 10, 20, 40)

Scores = dict[str, list[TraceScore]]
"""Of each contestant, by its title."""


@dataclass(frozen=True)
class Contestant:
    """A row of the tables.

    Attributes:
        title: of the row.
        method: key of `METHODS`.
        parameters: of the method.
    """

    title: str
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)

    def score(self, each: LabelledTrace, clock: ClockChoice) -> TraceScore:
        """Of its answer on one trace."""
        return evaluate_trace(
            each.name, each.time, each.metrics, each.labels, method=self.method, clock=clock, **self.parameters
        )


CONTESTANTS = (
    Contestant("track", "track"),
    Contestant("paper", "paper"),
    Contestant("paper, prominence 0.3, median", "paper", {"prominence": 0.3, "average": "median"}),
    Contestant("Binseg l2", "binseg"),
    Contestant("Binseg l2, every second", "binseg", {"every": 2}),
    Contestant("Jenks", "jenks"),
    Contestant("autocorrelation", "autocorrelation"),
    Contestant("harmonic", "harmonic"),
)


def honest(traces: Sequence[LabelledTrace], contestants: Sequence[Contestant], clock: ClockChoice = "auto") -> Scores:
    """Every contestant on every trace."""
    return {each.title: [each.score(trace, clock) for trace in traces] for each in contestants}


def papers_own(traces: Sequence[LabelledTrace], contestants: Sequence[Contestant]) -> Scores:
    """Every contestant on every (cropped) trace; the truth is the total length / number of epochs."""

    def total_by_number(score: TraceScore, labels: Labels) -> TraceScore:
        true = (labels.epoch_ends[-1] - labels.epoch_starts[0]) / len(labels.epoch_starts)
        error = None if score.found_period is None else period_error(score.found_period, true)
        return replace(score, true_period=true, error=error, baseline_error=period_error(score.baseline_period or true, true))

    return {each.title: [total_by_number(each.score(trace, "wall"), trace.labels) for trace in traces] for each in contestants}


def number(value: float | None, form: str = "{:.3g}") -> str:
    """Three digits."""
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else form.format(value)


def percent(value: float | None) -> str:
    """A share."""
    return "–" if value is None else f"{value:.0%}".replace("%", " %")


Form = Callable[[Any], str]

#: Title of a column -> figure of `summarise`, and how it is written.
COLUMNS: dict[str, tuple[str, Form]] = {
    "n": ("n", str),
    "MAPE %": ("mape", number),
    "median %": ("median_ape", number),
    "within 5 %": ("within_5", percent),
    "coverage": ("coverage", percent),
    "boundary F1": ("boundary_f1", lambda value: number(value, "{:.2f}")),
    "boundary error": ("boundary_error_samples", number),
    "false alarms": ("false_alarms", str),
    "CPU ms": ("cpu_ms", number),
}

#: The same of `macro_average`: means over the cells that trace names `SYSTEM/BENCHMARK/RUN` fall into.
MACRO_COLUMNS: dict[str, tuple[str, Form]] = {
    "cells": ("cells", str),
    "runs": ("n", str),
    **{title: COLUMNS[title] for title in ("MAPE %", "median %", "within 5 %", "coverage")},
    "confident and wrong": ("confident_wrong_share", percent),
    "CPU ms": ("cpu_ms", number),
}


def figures(rows: Sequence[TraceScore], macro: bool) -> dict[str, Any]:
    """Of one contestant, by their keys in the columns; those of `length / 10` begin with ``baseline_``."""
    line = summarise(rows)
    found: dict[str, Any] = dict(line)
    if macro:
        cells: dict[str, list[TraceScore]] = {}
        for row in rows:
            cells.setdefault(row.name.rpartition("/")[0], []).append(row)
        found = {"n": line["n"], **macro_average(cells)}
    else:
        found["false_alarms"] = f"{line['false_alarms']} of {line['n_other']}" if line["n_other"] else "–"
    found |= {f"baseline_{key}": found[key] for key in ("n", "cells") if key in found}
    return {**found, "cpu_ms": None if line["cpu_s"] is None else line["cpu_s"] * 1e3, "baseline_coverage": 1.0}


def section(title: str, sentence: str, scores: Scores, *, macro: bool = False, by_class: str = "") -> Iterator[str]:
    """Heading, sentence and table of a row per contestant, the trivial length / 10 last; a column by class, for each class."""
    columns = MACRO_COLUMNS if macro else COLUMNS
    lines = {contestant: figures(rows, macro) for contestant, rows in scores.items()}
    table = [[contestant, *(form(line[key]) for key, form in columns.values())] for contestant, line in lines.items()]
    trivial = next(iter(lines.values()))
    keys = [(f"baseline_{key}", form) for key, form in columns.values()]
    table.append(["length / 10", *(form(trivial[key]) if key in trivial else "–" for key, form in keys)])
    yield from (f"### {title}", "", sentence, "", *markdown_table(["method", *columns], table), "")
    if by_class:
        key, form = COLUMNS[by_class]
        classes = list(dict.fromkeys(row.cls for rows in scores.values() for row in rows if row.training))

        def cells(rows: Sequence[TraceScore], key: str) -> list[str]:
            return [form(summarise([row for row in rows if row.cls == cls])[key]) for cls in classes]

        table = [[contestant, *cells(rows, key)] for contestant, rows in scores.items()]
        table.append(["length / 10", *cells(next(iter(scores.values())), f"baseline_{key}")])
        yield from (f"{by_class[0].upper()}{by_class[1:]} by class:", "", *markdown_table(["method", *classes], table), "")


def on_simulated(seed: int, per_class: int, contestants: Sequence[Contestant]) -> Iterator[str]:
    """Both protocols on simulated traces."""

    def drawn(classes: Sequence[str], each: int = per_class) -> list[LabelledTrace]:
        return [simulated(cls, seed + index) for cls in classes for index in range(each)]

    yield from section(
        "Simulated, visible classes, honest protocol",
        "Whole recordings with the time before and after training, and any number of epochs. No method knows where or how many"
        ". False alarms are verdicts `epochs` on traces without training, except strict step loops.",
        honest(drawn([*VISIBLE, *OTHER]), contestants),
    )
    yield from section(
        "Simulated, classes without a visible or unambiguous epoch, honest protocol",
        "No answer is better than a guess here; every method but `track` guesses.",
        honest(drawn(HIDDEN), contestants),
    )
    yield from section(
        "Simulated class `paper`, the paper's own protocol",
        "Cropped with the true marks to exactly ten epochs, truth = total / 10. `length / 10` is right here without reading "
        "the trace, and a constant such as samples / 40 is a quarter of an epoch.",
        papers_own([trace.cropped(PAPERS_EPOCHS) for trace in drawn(["paper"], 4 * per_class)], contestants),
    )
    jobs = [(epochs, simulate(seed + index, epochs=epochs)) for epochs in OTHER_NUMBERS for index in range(per_class)]
    yield from section(
        "One simulated job with 3 to 40 epochs, cropped as in the paper",
        "The truth is total / number of epochs. A method that is right at ten epochs only owes that to the protocol.",
        papers_own([of_simulation(job, f"{epochs}").cropped(epochs) for epochs, job in jobs], contestants),
        by_class="MAPE %",
    )


def on_recorded(contestants: Sequence[Contestant]) -> Iterator[str]:
    """The honest protocol on real GPUs, on the power of MLPerf's nodes, and on recorded CPU trainings by the work clock."""
    if runs := [*recorded(REAL), *recorded(REAL / "more")]:
        yield from section(
            "Real GPUs, honest protocol",
            "Uncropped recordings of other people's trainings, every 0.05 to 30 s.",
            honest(runs, contestants),
            by_class="within 5 %",
        )
    if runs := list(mlperf()):
        yield from section(
            f"MLPerf training v4.0, power of each node, {len(runs)} runs, honest protocol",
            f"Runs whose period is at least {RESOLVED} samples; the truth is the median distance of epoch marks, else of "
            "evaluations. Each figure is a mean over (system, benchmark) cells.",
            honest(runs, contestants),
            macro=True,
            by_class="within 5 %",
        )
    for whose, folder in CPU_TRAININGS.items():
        if runs := list(recorded(folder)):
            title = f"Recorded, {whose} CPU trainings, work clock, honest protocol"
            sentence = "Uncropped. In seconds of work the epochs of one run are nearly alike."
            yield from section(title, sentence, honest(runs, contestants, "work"))


def report(seed: int, per_class: int, contestants: Sequence[Contestant]) -> Iterator[str]:
    """The part of the page."""
    yield from on_recorded(contestants)
    yield from on_simulated(seed, per_class, contestants)


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=60000)
    parser.add_argument("--per-class", type=int, default=2)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS), help="keys, by commas")
    chosen = parser.parse_args()
    if unknown := set(chosen.methods) - set(METHODS):
        parser.error(f"unknown methods {', '.join(sorted(unknown))}: choose from {', '.join(METHODS)}")
    contestants = [each for each in CONTESTANTS if each.method in chosen.methods]
    publish(DETECTOR, "comparison", report(chosen.seed, chosen.per_class, contestants), write=chosen.write)
