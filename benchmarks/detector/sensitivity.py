"""How far the answer of the paper's recipe (section III-B) depends on its constants, and on GPU, model and metric.

Run: EPOCHCAST_SHARED=../shared python -m benchmarks.detector.sensitivity [--seed 3000] [--traces 36] [--write]

The paper shows the smoothing divisor in Fig. 10 (samples / 40 is best), the number of passes in Fig. 5 (more than three neither
harm nor help, III-B.3), GPUs in Table II (MAPE 7.59 to 11.66 %), models in Fig. 9 (4.46 to 13.1 %), and says that DRAMA was the
best metric (IV-B). No trace of the paper is public, so its questions are asked of what there is: simulated traces (of several
simulated GPUs; they cannot say how a real GPU would do), the recorded CPU trainings (by model and by metric), and the
node power of MLPerf runs (by system).

The recipe states no bound on its peaks. Shown beside "every peak", which is what its text says, is "prominent peaks": those
that stand out by 30 % of the last score's range, the kindest simple reading that we found.

`--write` puts the tables and figures into docs/detector.md; without it they are printed, and no figure is drawn.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray
from scipy.signal import find_peaks

from epochcast.analyzer.figures.style import BLUE, GREEN, ORANGE, drawing
from epochcast.analyzer.traces.labels import mlperf_runs
from epochcast.detector import InputError, detect
from epochcast.detector.evaluation import Labels, evaluate_trace
from epochcast.detector.simulator import CLASSES, simulate, simulate_class

from ..page import DETECTOR
from .comparison import ROOT, SHARED, LabelledTrace, cropped, recorded

DIVISORS = (10, 20, 30, 40, 50, 60, 70, 80)
PASSES = (1, 2, 3, 4, 5)
NUMBERS = (3, 5, 10, 20, 40)
PROMINENCES = {"every peak": 0.0, "prominent peaks": 0.3}
SIMULATED_METRICS = (
    *("dram_active", "sm_active", "gr_engine_active", "sm_occupancy", "tensor_active", "fp32_active"),
    *("pcie_rx", "pcie_tx", "power", "gpu_utilization", "memory_utilization", "memory_used", "temperature"),
)

# A window of samples / 10 over more samples than this costs seconds per trace, and the protocol's traces are far shorter.
MOST_SAMPLES = 30_000


@dataclass(frozen=True)
class Run:
    """A trace, the period that counts as true for it [s], and what it is grouped by (GPU, model, system)."""

    trace: LabelledTrace
    true_period: float
    group: str = ""


@dataclass(frozen=True)
class Errors:
    """Percent off, over the answered runs; `n` counts all."""

    n: int
    percent: NDArray[np.float64]

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """n, MAPE, median, and the share of all n within 5 %."""
        if not self.percent.size:
            return str(self.n), "–", "–", "0 %"
        within = float((self.percent < 5).sum()) / self.n
        mean, median = (
            f"{value:.0f}" if value >= 100 else f"{value:.3g}" for value in (self.percent.mean(), np.median(self.percent))
        )
        return str(self.n), mean, median, f"{within:.0%}".replace("%", " %")


def as_in_the_paper(trace: LabelledTrace, number: int, group: str = "") -> Run:
    """Cropped with the true marks to `number` epochs; true is their total length / number, as in the authors' notebook."""
    crop = cropped(trace, number)
    return Run(crop, (crop.labels.epoch_ends[-1] - crop.labels.epoch_starts[0]) / number, group)


def as_recorded(trace: LabelledTrace, group: str = "") -> Run:
    """Uncropped; true is the median distance of the epoch starts."""
    return Run(trace, float(np.median(np.diff(trace.labels.epoch_starts))), group)


def simulated(cls: str, seed: int) -> tuple[LabelledTrace, str]:
    """One trace and its simulated GPU."""
    trace = simulate_class(cls, seed)
    return LabelledTrace(f"{cls}-{seed}", trace.time, dict(trace.metrics), Labels.from_json(trace.labels())), trace.gpu


def recorded_trainings() -> list[tuple[LabelledTrace, str]]:
    """Every recorded CPU training, shared and our own, with its model."""
    found = []
    for folder in (SHARED / "data" / "detector" / "cpu_training", ROOT / "data" / "cpu_training"):
        for trace in recorded(folder):
            if trace.labels.training:
                model = json.loads((folder / f"{trace.name}.json").read_text())["cfg"]["model"]
                found.append((trace, {"res": "resnet", "tf": "transformer", "tfm": "transformer"}.get(model, model)))
    return found


def scores_of(
    runs: Sequence[Run], *, passes: int = 3, divisor: float = 40, metric: str | None = None
) -> list[list[NDArray[np.float64]]]:
    """The recipe's score after each pass, (n,) each, of every run; none where it refuses the trace or the metric is missing."""
    settings = {"passes": passes, "window_divisor": divisor}
    scores = []
    for run in runs:
        scores.append([])
        if metric is None or metric in run.trace.metrics:
            with suppress(InputError):
                found = detect(run.trace.time, run.trace.metrics, method="paper", clock="wall", metric=metric, **settings)
                scores[-1] = [found.scores[f"pass{number}"] for number in range(1, passes + 1)]
    return scores


def errors(runs: Sequence[Run], scores: Sequence[Sequence[NDArray[np.float64]]], share: float, last: int = -1) -> Errors:
    """Of the period between the peaks that stand out by this share of the score's range; `last`: index of the last pass."""
    percent = []
    for run, passes in zip(runs, scores, strict=True):
        if passes:
            score = passes[last]
            peaks, _ = find_peaks(score, prominence=share * np.ptp(score) if share else None)
            if peaks.size >= 2:
                period = float(np.mean(np.diff(run.trace.time[peaks])))
                percent.append(abs(period / run.true_period - 1) * 100)
    return Errors(len(runs), np.array(percent))


def in_both_readings(runs: Sequence[Run], metric: str | None = None) -> list[str]:
    """Cells of a table: MAPE, median and share within 5 % of each reading of the peaks."""
    scores = scores_of(runs, metric=metric)
    return [cell for share in PROMINENCES.values() for cell in errors(runs, scores, share).cells[1:]]


Swept = dict[tuple[str, str], list[Errors]]


def by_divisor(sets: dict[str, list[Run]]) -> Swept:
    """(data, peaks) -> the errors at each of `DIVISORS`."""
    found: Swept = {(data, peaks): [] for data in sets for peaks in PROMINENCES}
    for data, runs in sets.items():
        for divisor in DIVISORS:
            scores = scores_of(runs, divisor=divisor)
            for peaks, share in PROMINENCES.items():
                found[data, peaks].append(errors(runs, scores, share))
    return found


def by_passes(sets: dict[str, list[Run]]) -> Swept:
    """(data, peaks) -> the errors at each of `PASSES`."""
    found: Swept = {}
    for data, runs in sets.items():
        scores = scores_of(runs, passes=max(PASSES))
        for peaks, share in PROMINENCES.items():
            found[data, peaks] = [errors(runs, scores, share, last=number - 1) for number in PASSES]
    return found


def sweep_table(found: Swept, values: Sequence[int], title: str) -> Iterator[str]:
    """Median error and share within 5 % per value; the MAPE of the recipe is ruled by a few large errors."""
    yield f"| data (n) | peaks | {' | '.join(f'{title}{value}' for value in values)} |"
    yield "|---|---|" + "---|" * len(values)
    for (data, peaks), row in found.items():
        cells = [f"{each.cells[2]} ({each.cells[3]})" for each in row]
        yield f"| {data} ({row[0].n}) | {peaks} | {' | '.join(cells)} |"


def sweep_figure(found: Swept, values: Sequence[int], label: str, stated: int) -> Figure:
    """Median error over one constant, a panel per reading of the peaks; the stated value is dashed."""
    with drawing():
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        panels = figure.subplots(1, len(PROMINENCES), sharey=True)
        looks = ((BLUE, "o", "-"), (ORANGE, "s", "--"), (GREEN, "^", "-."), ("0.35", "D", ":"))
        for axes, peaks in zip(panels, PROMINENCES, strict=True):
            rows = [(data, row) for (data, which), row in found.items() if which == peaks]
            for (data, row), (color, marker, line) in zip(rows, looks, strict=False):
                medians = [float(np.median(each.percent)) if each.percent.size else np.nan for each in row]
                axes.plot(values, medians, color=color, marker=marker, linestyle=line, markersize=4, label=data)
            axes.axvline(stated, color="0.5", linewidth=0.9, linestyle=(0, (4, 2)))
            axes.set_title(peaks)
            axes.set_yscale("log")
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.set_xticks(values)
            axes.set_xlabel(f"{label} (dashed: the paper's)")
        panels[0].set_ylabel("median error of the period")
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=2)
        return figure


def grouped_table(runs: Iterable[Run], what: str) -> Iterator[str]:
    """A row per group, for both readings of the peaks."""
    yield f"| {what} | n | " + " | ".join(f"{peaks}: MAPE % | median % | within 5 %" for peaks in PROMINENCES) + " |"
    yield "|---|---|" + "---|" * 3 * len(PROMINENCES)
    for group, members in groupby(sorted(runs, key=attrgetter("group")), key=attrgetter("group")):
        of_group = list(members)
        yield f"| {group} | {len(of_group)} | {' | '.join(in_both_readings(of_group))} |"


def metric_table(runs: Sequence[Run], names: Sequence[str], whole: Sequence[Run]) -> Iterator[str]:
    """A row per metric: the recipe on `runs`, and the tracker on the same metric of the uncropped traces."""
    yield (
        "| metric | n | "
        + " | ".join(f"{peaks}: MAPE % | median % | within 5 %" for peaks in PROMINENCES)
        + (" | track, uncropped: within 5 % | answered |")
    )
    yield "|---|---|" + "---|" * (3 * len(PROMINENCES) + 2)
    for name in names:
        cells = in_both_readings(runs, metric=name)
        answers = [tracked(run, name) for run in whole]
        right = sum(answer is not None and answer < 5 for answer in answers)
        given = sum(answer is not None for answer in answers)
        yield f"| `{name}` | {len(runs)} | {' | '.join(cells)} | {right} of {len(whole)} | {given} |"


def tracked(run: Run, metric: str) -> float | None:
    """Percent that the tracker is off on one metric, on the clock that it chooses; None if it abstains or lacks the metric."""
    if metric not in run.trace.metrics:
        return None
    return evaluate_trace(run.trace.name, run.trace.time, run.trace.metrics, run.trace.labels, metric=metric).error


def numbers_table(seed: int, each: int) -> Iterator[str]:
    """Median error by divisor and by the number of epochs in the trace, prominent peaks, the same kind of job."""
    yield "| epochs in the trace | " + " | ".join(f"n/{divisor}" for divisor in DIVISORS) + " |"
    yield "|---|" + "---|" * len(DIVISORS)
    for number in NUMBERS:
        traces = [simulate(seed + index, epochs=number) for index in range(each)]
        runs = [
            as_in_the_paper(LabelledTrace("", trace.time, dict(trace.metrics), Labels.from_json(trace.labels())), number)
            for trace in traces
        ]
        cells = [
            errors(runs, scores_of(runs, divisor=divisor), PROMINENCES["prominent peaks"]).cells[2] for divisor in DIVISORS
        ]
        yield f"| {number} | {' | '.join(cells)} |"


def mlperf() -> list[Run]:
    """MLPerf runs by system; none where the data is absent."""
    folder = SHARED / "data" / "detector"
    power, events = folder / "mlperf_v4.0_power.csv.gz", folder / "mlperf_v4.0_events.csv.gz"
    if not power.exists():
        return []
    runs = []
    for name, trace, labels in mlperf_runs(power, events):
        run = as_recorded(LabelledTrace(name, trace.time, trace.metrics(), labels), name.split("/")[0])
        if run.true_period >= 3 * float(np.median(np.diff(trace.time))):
            runs.append(run)
    return runs


def report(seed: int, traces: int, draw: Callable[[Figure, str], str] | None) -> Iterator[str]:
    """Markdown; `draw` saves a figure and gives its path."""
    papers = [simulated("paper", seed + number) for number in range(traces)]
    crops = [as_in_the_paper(trace, len(trace.labels.epoch_starts), gpu) for trace, gpu in papers]
    wholes = [as_recorded(trace, gpu) for trace, gpu in papers]
    visible = [name for name, spec in CLASSES.items() if spec.training and spec.visible]
    others = [simulated(cls, seed + number)[0] for cls in visible for number in range(max(1, traces // 12))]
    trainings = recorded_trainings()
    sets = {
        "simulated `paper`, cropped to its ten epochs": crops,
        "the same, uncropped": wholes,
        "simulated, all visible classes, uncropped": [as_recorded(t) for t in others if t.time.size <= MOST_SAMPLES],
    }
    if trainings:
        sets["recorded CPU trainings, uncropped"] = [as_recorded(trace) for trace, _ in trainings]

    def picture(found: Swept, values: Sequence[int], label: str, stated: int, name: str) -> Iterator[str]:
        if draw is not None:
            plain = {(data.replace("`", ""), peaks): row for (data, peaks), row in found.items()}
            path = draw(sweep_figure(plain, values, label, stated), name)
            yield from ("", f"![Median error of the paper's recipe over its {label}]({path})")

    yield from ("### Smoothing divisor (the paper's Fig. 10)", "")
    yield from (f"Median error in percent (share within 5 %); traces of at most {MOST_SAMPLES} samples.", "")
    found = by_divisor(sets)
    yield from sweep_table(found, DIVISORS, "n/")
    yield from picture(found, DIVISORS, "smoothing divisor", 40, "sensitivity_divisor")
    yield from (
        "",
        "By number of epochs: one kind of simulated job, cropped to so many of them; prominent peaks, median error in percent.",
        "",
    )
    yield from numbers_table(seed, 6)

    yield from ("", "### Number of passes (Fig. 5)", "", "Median error in percent (share within 5 %).", "")
    found = by_passes(sets)
    yield from sweep_table(found, PASSES, "")
    yield from picture(found, PASSES, "number of passes", 3, "sensitivity_passes")

    yield from ("", "### By GPU (Table II)", "")
    yield from (
        "Simulated `paper` traces, cropped to ten epochs, by simulated GPU. The paper's MAPE: T4 11.66, A10G 7.59,",
        "V100 10.59, A100 9.51, A10 8.66 %. No public trace of a GPU at 10 Hz exists to repeat that on.",
        "",
    )
    yield from grouped_table(crops, "simulated GPU")
    if runs := mlperf():
        yield from ("", "Node power of MLPerf v4.0 runs with periods of at least three samples, uncropped, by system.", "")
        yield from grouped_table(runs, "system")

    if trainings:
        yield from (
            "",
            "### By model (Fig. 9)",
            "",
            "Recorded CPU trainings, cropped with the true marks to all of their epochs, by model.",
            "",
        )
        yield from grouped_table(
            [as_in_the_paper(trace, len(trace.labels.epoch_starts), model) for trace, model in trainings], "model"
        )

    yield from ("", "### By metric (why DRAMA)", "", "Simulated `paper` traces, the recipe cropped to ten epochs.", "")
    names = [name for name in SIMULATED_METRICS if all(name in run.trace.metrics for run in crops)]
    yield from metric_table(crops, names, wholes[: max(1, traces // 3)])
    if trainings:
        yield from ("", "Recorded CPU trainings, cropped with the true marks for the recipe.", "")
        runs = [as_in_the_paper(trace, len(trace.labels.epoch_starts)) for trace, _ in trainings]
        uncropped = [as_recorded(trace) for trace, _ in trainings]
        own = [set(run.trace.metrics) for run in runs]
        for names in sorted({tuple(sorted(each)) for each in own}):
            members = [index for index, each in enumerate(own) if tuple(sorted(each)) == names]
            yield from metric_table([runs[i] for i in members], names, [uncropped[i] for i in members])
            yield ""


def main() -> None:
    """Print the report, or write it into the docs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=3000)
    parser.add_argument("--traces", type=int, default=36)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = []
    for line in report(options.seed, options.traces, DETECTOR.save_picture if options.write else None):
        print(line, flush=True)
        lines.append(line)
    if options.write:
        command = f"python -m benchmarks.detector.sensitivity --seed {options.seed} --traces {options.traces} --write"
        DETECTOR.fill("sensitivity", [f"`{command}`", "", *lines])


if __name__ == "__main__":
    main()
