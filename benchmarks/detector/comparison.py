"""All detection methods on the same traces, by two protocols: the honest one and the paper's own.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.detector.comparison [--seed 1000] [--per-class 2] [--methods track,paper]
     [--markdown comparison.md] [--json comparison.json]

Honest: traces as they were recorded or simulated, uncropped, with any number of epochs; the truth is the median distance of the
true epoch starts, and a trace without an answer is a miss in "within 5 %". The paper's own: each trace is cropped with its true
marks to exactly ten epochs, and the truth is their total length / 10.

Oracles are no methods: they are told what no detector knows.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from epochcast.analyzer.files import write_whole
from epochcast.analyzer.traces.labels import labelled_traces, mlperf_runs
from epochcast.detector import METHODS
from epochcast.detector.evaluation import RESOLVED, Labels, TraceScore, evaluate_trace, macro_average, period_error, summarise
from epochcast.detector.simulator import CLASSES, simulate, simulate_class

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("EPOCHCAST_SHARED", ROOT.parent / "shared"))

#: Epochs that the paper's runs have, and numbers beside it.
PAPERS_EPOCHS = 10
OTHER_NUMBERS = (3, 5, 10, 20, 40)


@dataclass(frozen=True)
class LabelledTrace:
    """A trace with its truth.

    Attributes:
        name: for the rows of the JSON output.
        time: (n,) unix seconds.
        metrics: name -> (n,).
        labels: its truth.
    """

    name: str
    time: np.ndarray
    metrics: dict[str, np.ndarray]
    labels: Labels


@dataclass(frozen=True)
class Contestant:
    """A row of the tables.

    Attributes:
        title: of the row.
        method: key of `METHODS`.
        parameters: of the method.
        told: what an oracle is told: parameters that follow from the truth.
    """

    title: str
    method: str
    parameters: dict[str, Any] = field(default_factory=dict)
    told: Callable[[Labels], dict[str, Any]] | None = None

    def score(self, trace: LabelledTrace, clock: str) -> TraceScore:
        """Of its answer on one trace."""
        parameters = {**self.parameters, **(self.told(trace.labels) if self.told and trace.labels.training else {})}
        return evaluate_trace(
            trace.name, trace.time, trace.metrics, trace.labels, method=self.method, clock=clock, **parameters
        )


def true_number(labels: Labels) -> dict[str, int]:
    """Two change points per epoch, where training turns into validation and back, but none at the end of the last."""
    return {"number": 2 * len(labels.epoch_starts) - 1}


CONTESTANTS = (
    Contestant("track", "track"),
    Contestant("paper", "paper"),
    Contestant("paper, prominence 0.3, median", "paper", {"prominence": 0.3, "average": "median"}),
    Contestant("notebook", "notebook"),
    Contestant("PELT rbf", "pelt"),
    Contestant("PELT rbf, every second", "pelt", {"every": 2}),
    Contestant("PELT l2", "pelt", {"cost": "l2"}),
    Contestant("PELT l2, every second", "pelt", {"cost": "l2", "every": 2}),
    Contestant("Dynp l2", "dynp"),
    Contestant("Dynp l2, every second", "dynp", {"every": 2}),
    Contestant("Binseg l2", "binseg"),
    Contestant("Binseg l2, every second", "binseg", {"every": 2}),
    Contestant("Jenks", "jenks"),
    Contestant("autocorrelation", "autocorrelation"),
    Contestant("harmonic", "harmonic"),
    Contestant("*oracle:* Dynp, true number", "dynp", {}, true_number),
    Contestant("*oracle:* Dynp, true number, every second", "dynp", {"every": 2}, true_number),
)


def simulated(classes: Sequence[str], seed: int, per_class: int) -> list[LabelledTrace]:
    """Traces of the simulator, uncropped."""
    traces = []
    for cls in classes:
        for number in range(per_class):
            trace = simulate_class(cls, seed + number)
            labels = Labels.from_json(trace.labels())
            traces.append(LabelledTrace(f"{cls}-{seed + number}", trace.time, dict(trace.metrics), labels))
    return traces


def recorded(folder: Path) -> list[LabelledTrace]:
    """Recorded traces with label files; none where the folder is absent."""
    if not folder.is_dir():
        print(f"(no recordings in {folder}: left out)")
        return []
    return [LabelledTrace(name, trace.time, trace.metrics(), labels) for name, trace, labels in labelled_traces(folder)]


def cropped(trace: LabelledTrace, number: int) -> LabelledTrace:
    """From the first true epoch's start to the end of the `number`-th."""
    starts, ends = trace.labels.epoch_starts[:number], trace.labels.epoch_ends[:number]
    if len(starts) < number:
        raise ValueError(f"{trace.name} has {len(starts)} epochs, not {number}")
    inside = (trace.time >= starts[0]) & (trace.time <= ends[-1])
    metrics = {name: values[inside] for name, values in trace.metrics.items() if not np.isnan(values[inside]).all()}
    labels = Labels(starts, ends, training=True, cls=f"{number} epochs")
    return LabelledTrace(trace.name, trace.time[inside], metrics, labels)


def total_by_number(score: TraceScore, labels: Labels) -> TraceScore:
    """The same score with the paper's truth: the total length / number of epochs."""
    true = (labels.epoch_ends[-1] - labels.epoch_starts[0]) / len(labels.epoch_starts)
    error = None if score.found_period is None else period_error(score.found_period, true)
    return replace(score, true_period=true, error=error, baseline_error=period_error(score.baseline_period or true, true))


Scores = dict[str, list[TraceScore]]


def honest(traces: Sequence[LabelledTrace], contestants: Sequence[Contestant], clock: str = "auto") -> Scores:
    """Every contestant on every trace."""
    return {each.title: [each.score(trace, clock) for trace in traces] for each in contestants}


def papers_own(traces: Sequence[LabelledTrace], contestants: Sequence[Contestant]) -> Scores:
    """Every contestant on every (cropped) trace, against total / number."""
    return {each.title: [total_by_number(each.score(trace, "wall"), trace.labels) for trace in traces] for each in contestants}


HEADER = (
    "method",
    "n",
    "MAPE %",
    "median %",
    "within 5 %",
    "coverage",
    "boundary F1",
    "boundary error",
    "false alarms",
    "CPU ms",
)


def table(scores: Scores) -> Iterator[str]:
    """Markdown, one row per contestant, the trivial length / 10 last. Boundary error in samples."""
    yield "| " + " | ".join(HEADER) + " |"
    yield "|---|" + "---|" * (len(HEADER) - 1)
    for title, rows in scores.items():
        line = summarise(rows)
        cells = (
            title,
            str(line["n"]),
            _number(line["mape"]),
            _number(line["median_ape"]),
            _percent(line["within_5"]),
            _percent(line["coverage"]),
            _number(line["boundary_f1"], "{:.2f}"),
            _number(line["boundary_error_samples"]),
            f"{line['false_alarms']} of {line['n_other']}" if line["n_other"] else "–",
            _number(None if line["cpu_s"] is None else line["cpu_s"] * 1e3),
        )
        yield "| " + " | ".join(cells) + " |"
    line = summarise(next(iter(scores.values())))
    trivial = (_number(line["baseline_mape"]), _number(line["baseline_median_ape"]), _percent(line["baseline_within_5"]))
    yield "| " + " | ".join(("length / 10", str(line["n"]), *trivial, "100 %", *("–",) * 4)) + " |"


MACRO_HEADER = ("method", "cells", "runs", "MAPE %", "median %", "within 5 %", "coverage", "confident and wrong", "CPU ms")


def macro_table(scores: Scores) -> Iterator[str]:
    """Markdown, one row per contestant: means over the cells that the trace names `SYSTEM/BENCHMARK/RUN` fall into."""
    yield "| " + " | ".join(MACRO_HEADER) + " |"
    yield "|---|" + "---|" * (len(MACRO_HEADER) - 1)
    for title, rows in scores.items():
        cells: dict[str, list[TraceScore]] = {}
        for row in rows:
            cells.setdefault(row.name.rpartition("/")[0], []).append(row)
        line, cost = macro_average(cells), summarise(rows)["cpu_s"]
        figures = (
            title,
            str(line["cells"]),
            str(len(rows)),
            _number(line["mape"]),
            _number(line["median_ape"]),
            _percent(line["within_5"]),
            _percent(line["coverage"]),
            _percent(line["confident_wrong_share"]),
            _number(None if cost is None else cost * 1e3),
        )
        yield "| " + " | ".join(figures) + " |"
    yield f"| length / 10 | {line['cells']} | {len(rows)} | – | – | {_percent(line['baseline_within_5'])} | 100 % | – | – |"


def by_class(scores: Scores, figure: str, form: Callable[[float | None], str]) -> Iterator[str]:
    """Markdown: one figure of `summarise`, a row per contestant and a column per class."""
    classes = list(dict.fromkeys(row.cls for rows in scores.values() for row in rows if row.training))
    yield "| method | " + " | ".join(classes) + " |"
    yield "|---|" + "---|" * len(classes)
    for title, rows in scores.items():
        cells = [form(summarise([row for row in rows if row.cls == cls])[figure]) for cls in classes]
        yield f"| {title} | " + " | ".join(cells) + " |"
    rows = next(iter(scores.values()))
    cells = [form(summarise([row for row in rows if row.cls == cls])[f"baseline_{figure}"]) for cls in classes]
    yield "| length / 10 | " + " | ".join(cells) + " |"


def _number(value: float | None, form: str = "{:.3g}") -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else form.format(value)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}".replace("%", " %")


@dataclass(frozen=True)
class Section:
    """Some traces, and what every contestant makes of them.

    Attributes:
        title: heading.
        sentence: what the protocol tells and asks.
        scores: of each contestant.
        macro: whether each (system, benchmark) counts once, whatever its number of runs.
        figure: of `summarise`, to be shown by class, or None.
    """

    title: str
    sentence: str
    scores: Scores
    macro: bool = False
    figure: str | None = None

    def markdown(self) -> str:
        """Heading, sentence, one table or two."""
        lines = [f"### {self.title}", "", self.sentence, "", *(macro_table if self.macro else table)(self.scores), ""]
        if self.figure is not None:
            title, form = FIGURES[self.figure]
            lines += [f"{title} by class:", "", *by_class(self.scores, self.figure, form), ""]
        return "\n".join(lines)


FIGURES: dict[str, tuple[str, Callable[[float | None], str]]] = {
    "within_5": ("Within 5 %", _percent),
    "mape": ("MAPE %", _number),
}


def on_simulated(seed: int, per_class: int, contestants: Sequence[Contestant]) -> Iterator[Section]:
    """Both protocols on simulated traces."""
    visible = [name for name, spec in CLASSES.items() if spec.training and spec.visible]
    hidden = [name for name, spec in CLASSES.items() if spec.training and not spec.visible]
    other = [name for name, spec in CLASSES.items() if not spec.training]
    yield Section(
        "Simulated, visible classes, honest protocol",
        "Whole recordings with what came before and after, any number of epochs: nothing tells a method where or how many. "
        "False alarms are verdicts `epochs` on traces without training, strict step loops apart.",
        honest(simulated([*visible, *other], seed, per_class), contestants),
        figure="within_5",
    )
    yield Section(
        "Simulated, classes without a visible or unambiguous epoch, honest protocol",
        "Here to abstain is better than to guess, and every method but `track` guesses.",
        honest(simulated(hidden, seed, per_class), contestants),
        figure="within_5",
    )
    papers = [cropped(trace, PAPERS_EPOCHS) for trace in simulated(["paper"], seed, 4 * per_class)]
    yield Section(
        "Simulated class `paper`, the paper's own protocol",
        "Cropped with the true marks to exactly ten epochs, truth = total / 10: length / 10 is right without a look at the "
        "trace, and a constant such as samples / 40, which is a quarter of an epoch here, holds the answer.",
        papers_own(papers, contestants),
    )
    numbers = []
    for number in OTHER_NUMBERS:
        for each in range(per_class):
            trace = simulate(seed + each, epochs=number)
            labels = Labels.from_json(trace.labels())
            numbers.append(cropped(LabelledTrace(f"{number}-{each}", trace.time, dict(trace.metrics), labels), number))
    yield Section(
        "One simulated job with 3 to 40 epochs, cropped as in the paper",
        "The truth is total / number of epochs. What is right at ten epochs only owes it to the protocol.",
        papers_own(numbers, contestants),
        figure="mape",
    )


def on_recorded(contestants: Sequence[Contestant]) -> Iterator[Section]:
    """The honest protocol on recorded CPU trainings, by clock."""
    asks = {
        "wall": "Uncropped. Epochs of one run differ up to threefold in wall seconds, as the cores were shared.",
        "work": "Uncropped. In seconds of work the epochs of one run are nearly alike.",
    }
    for title, folder in (
        ("shared CPU trainings", SHARED / "data" / "detector" / "cpu_training"),
        ("our own CPU trainings", ROOT / "data" / "cpu_training"),
    ):
        if runs := recorded(folder):
            for clock, sentence in asks.items():
                yield Section(f"Recorded, {title}, {clock} clock, honest protocol", sentence, honest(runs, contestants, clock))


def on_mlperf(contestants: Sequence[Contestant]) -> Iterator[Section]:
    """The honest protocol on the power of MLPerf's nodes; nothing where the data is absent."""
    power, events = (SHARED / "data" / "detector" / f"mlperf_v4.0_{kind}.csv.gz" for kind in ("power", "events"))
    if not power.exists():
        print(f"(no {power.name} in {power.parent}: left out)")
        return
    traces = [
        LabelledTrace(name, trace.time, trace.metrics(), labels)
        for name, trace, labels in mlperf_runs(power, events)
        if np.median(np.diff(labels.epoch_starts)) >= RESOLVED * np.median(np.diff(trace.time))
    ]
    yield Section(
        f"MLPerf training v4.0, power of each node, {len(traces)} runs, honest protocol",
        f"Runs whose period is at least {RESOLVED} samples; the truth is the median distance of epoch marks, else of "
        "evaluations. Each figure is a mean over (system, benchmark) cells.",
        honest(traces, contestants),
        macro=True,
        figure="within_5",
    )


def main() -> None:
    """Print the tables; write them and all rows where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--per-class", type=int, default=2)
    parser.add_argument("--methods", type=lambda text: text.split(","), default=list(METHODS), help="keys, by commas")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if unknown := set(options.methods) - set(METHODS):
        parser.error(f"unknown methods {', '.join(sorted(unknown))}: choose from {', '.join(METHODS)}")
    contestants = [each for each in CONTESTANTS if each.method in options.methods]

    sections = []
    for section in chain(
        on_simulated(options.seed, options.per_class, contestants), on_recorded(contestants), on_mlperf(contestants)
    ):
        print(section.markdown(), flush=True)
        sections.append(section)
    if options.markdown:
        text = "\n".join(section.markdown() for section in sections)
        write_whole(options.markdown, lambda file: file.write(text.encode()))
    if options.json:
        rows = {
            section.title: {name: [asdict(row) for row in each] for name, each in section.scores.items()}
            for section in sections
        }
        write_whole(options.json, lambda file: file.write(json.dumps(rows, indent=1).encode()))


if __name__ == "__main__":
    main()
