"""How far the answer of the paper's recipe (section III-B) depends on its constants, and on GPU, model and metric.

    EPOCHCAST_SHARED=../shared python -m lab.speed.detector.sensitivity [--seed 3000] [--traces 36] [--write]

The paper shows the smoothing divisor in Fig. 10 (samples / 40 is best), the number of passes in Fig. 5 (more than three neither
harm nor help, III-B.3), GPUs in Table II (MAPE 7.59 to 11.66 %), models in Fig. 9 (4.46 to 13.1 %), and says that DRAMA was the
best metric (IV-B). No trace of the paper is public, so its questions are asked of what there is: simulated traces (of several
simulated GPUs; they cannot say how a real GPU would do), the recorded CPU trainings (by model and by metric), and the
node power of MLPerf runs (by system).

The recipe states no bound on its peaks. Shown next to "every peak", which is what its text says, is "prominent peaks": those
that stand out by 30 % of the last score's range, the kindest simple reading that we found.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import groupby

import numpy as np
from numpy.typing import NDArray
from scipy.signal import find_peaks

from epochcast.detector import InputError, detect
from lab.evaluate.detection import TOLERANCE, evaluate_trace, period_error
from lab.simulator import simulate
from lab.speed.detector.comparison import number, percent
from lab.speed.detector.traces import CPU_TRAININGS, VISIBLE, LabelledTrace, mlperf, of_simulation, recorded, simulated
from lab.speed.page import DETECTOR, markdown_table, options, publish

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

Runs = list[tuple[LabelledTrace, float]]
"""Traces, and the period that counts as true for each [s]."""
Errors = NDArray[np.float64]
"""Percent off, of every run; NaN without an answer."""
Swept = dict[tuple[str, str], list[Errors]]
"""(data, peaks) -> errors at each value of a constant."""


def as_in_the_paper(each: LabelledTrace) -> tuple[LabelledTrace, float]:
    """Cropped with the true marks to all epochs; true is their total length / number, as in the authors' notebook."""
    epochs = len(each.labels.epoch_starts)
    return each.cropped(epochs), (each.labels.epoch_ends[-1] - each.labels.epoch_starts[0]) / epochs


def as_recorded(traces: Iterable[LabelledTrace]) -> Runs:
    """Uncropped; true is the median distance of the epoch starts."""
    return [(each, each.period_s) for each in traces]


def errors(
    runs: Runs, *, passes: int = 3, divisor: float = 40, metric: str | None = None, shown: Sequence[int] = (3,)
) -> dict[tuple[str, int], Errors]:
    """(peaks, pass) -> errors of the period between the peaks of the score after each pass in `shown`."""
    found = {(peaks, last): np.full(len(runs), np.nan) for peaks in PROMINENCES for last in shown}
    settings = {"passes": passes, "window_divisor": divisor}
    for index, (each, true) in enumerate(runs):
        with suppress(InputError):  # too short for the window, or the metric is missing
            scores = detect(each.time, each.metrics, method="paper", clock="wall", metric=metric, **settings).scores
            for peaks, last in found:
                score, share = scores[f"pass{last}"], PROMINENCES[peaks]
                at, _ = find_peaks(score, prominence=share * np.ptp(score) if share else None)
                if at.size >= 2:
                    found[peaks, last][index] = period_error(float(np.mean(np.diff(each.time[at]))), true)
    return found


def cells(percents: Errors) -> tuple[str, str, str]:
    """MAPE and median of the answered, and the share of all within 5 %."""
    answered = percents[~np.isnan(percents)]
    within = percent(float(np.mean(percents < 100 * TOLERANCE)))
    return (number(answered.mean()), number(np.median(answered)), within) if answered.size else ("–", "–", within)


def by_divisor(sets: dict[str, Runs]) -> Swept:
    """The errors at each of `DIVISORS`."""
    found: Swept = {(data, peaks): [] for data in sets for peaks in PROMINENCES}
    for data, runs in sets.items():
        for divisor in DIVISORS:
            for (peaks, _), percents in errors(runs, divisor=divisor).items():
                found[data, peaks].append(percents)
    return found


def by_passes(sets: dict[str, Runs]) -> Swept:
    """The errors after each of `PASSES`."""
    found = {data: errors(runs, passes=max(PASSES), shown=PASSES) for data, runs in sets.items()}
    return {(data, peaks): [found[data][peaks, last] for last in PASSES] for data in sets for peaks in PROMINENCES}


def sweep_table(found: Swept, values: Sequence[int], title: str) -> Iterator[str]:
    """Median error and share within 5 % per value; the MAPE of the recipe is ruled by a few large errors."""
    rows = []
    for (data, peaks), swept in found.items():
        figures = [f"{median} ({within})" for _, median, within in map(cells, swept)]
        rows.append([f"{data} ({swept[0].size})", peaks, *figures])
    yield from markdown_table(["data (n)", "peaks", *(f"{title}{value}" for value in values)], rows)


BOTH_READINGS = [title for peaks in PROMINENCES for title in (f"{peaks}: MAPE %", "median %", "within 5 %")]


def in_both_readings(runs: Runs, metric: str | None = None) -> list[str]:
    """Number of runs, then the cells of each reading of the peaks."""
    return [str(len(runs)), *(cell for percents in errors(runs, metric=metric).values() for cell in cells(percents))]


def grouped_table(runs: Sequence[tuple[str, tuple[LabelledTrace, float]]], what: str) -> Iterator[str]:
    """A row per group, for both readings of the peaks."""
    in_order = sorted(runs, key=lambda each: each[0])
    rows = [
        [group, *in_both_readings([run for _, run in members])] for group, members in groupby(in_order, lambda each: each[0])
    ]
    yield from markdown_table([what, "n", *BOTH_READINGS], rows)


def metric_table(runs: Runs, names: Sequence[str], whole: Sequence[LabelledTrace]) -> Iterator[str]:
    """A row per metric: the recipe on `runs`, and the tracker on the same metric of the uncropped traces."""
    rows = []
    for name in names:
        scores = [
            evaluate_trace(each.name, each.time, each.metrics, each.labels, metric=name)
            for each in whole
            if name in each.metrics
        ]
        right, answered = sum(score.right for score in scores), sum(score.error is not None for score in scores)
        rows.append([f"`{name}`", *in_both_readings(runs, metric=name), f"{right} of {len(whole)}", str(answered)])
    yield from markdown_table(["metric", "n", *BOTH_READINGS, "track, uncropped: within 5 %", "answered"], rows)


def numbers_table(seed: int, each: int) -> Iterator[str]:
    """Median error by divisor and by the number of epochs in the trace, prominent peaks, the same kind of job."""
    rows = []
    for epochs in NUMBERS:
        runs = [as_in_the_paper(of_simulation(simulate(seed + index, epochs=epochs), "")) for index in range(each)]
        swept = [errors(runs, divisor=divisor)["prominent peaks", 3] for divisor in DIVISORS]
        rows.append([str(epochs), *(cells(percents)[1] for percents in swept)])
    yield from markdown_table(["epochs in the trace", *(f"n/{divisor}" for divisor in DIVISORS)], rows)


def recorded_trainings() -> Iterator[tuple[str, LabelledTrace]]:
    """Every recorded CPU training, shared and our own, with its model."""
    for folder in CPU_TRAININGS.values():
        for each in recorded(folder):
            if each.labels.training:
                model = json.loads((folder / f"{each.name}.json").read_text())["cfg"]["model"]
                yield {"res": "resnet", "tf": "transformer", "tfm": "transformer"}.get(model, model), each


def report(seed: int, traces: int) -> Iterator[str]:
    """The part of the page."""
    papers = [simulated("paper", seed + index) for index in range(traces)]
    crops = [as_in_the_paper(each) for each in papers]
    others = [simulated(cls, seed + index) for cls in VISIBLE for index in range(max(1, traces // 12))]
    trainings = list(recorded_trainings())
    sets = {
        "simulated `paper`, cropped to its ten epochs": crops,
        "the same, uncropped": as_recorded(papers),
        "simulated, all visible classes, uncropped": as_recorded(t for t in others if t.time.size <= MOST_SAMPLES),
    }
    if trainings:
        sets["recorded CPU trainings, uncropped"] = as_recorded(each for _, each in trainings)

    yield from ("### Smoothing divisor (the paper's Fig. 10)", "")
    yield from (f"Median error in percent (share within 5 %); traces of at most {MOST_SAMPLES} samples.", "")
    found = by_divisor(sets)
    yield from sweep_table(found, DIVISORS, "n/")
    yield from (
        "",
        "By number of epochs: one kind of simulated job, cropped to so many of them; prominent peaks, median error in percent.",
        "",
    )
    yield from numbers_table(seed, 6)

    yield from ("", "### Number of passes (Fig. 5)", "", "Median error in percent (share within 5 %).", "")
    found = by_passes(sets)
    yield from sweep_table(found, PASSES, "")

    yield from ("", "### By GPU (Table II)", "")
    yield from (
        "Simulated `paper` traces, cropped to ten epochs, by simulated GPU. The paper's MAPE: T4 11.66, A10G 7.59,",
        "V100 10.59, A100 9.51, A10 8.66 %. No public trace of these GPUs at 10 Hz exists.",
        "",
    )
    yield from grouped_table([(run[0].trace.gpu or "", run) for run in crops], "simulated GPU")
    if runs := as_recorded(mlperf()):
        yield "\nNode power of MLPerf v4.0 runs with periods of at least three samples, uncropped, by system.\n"
        yield from grouped_table([(run[0].name.split("/")[0], run) for run in runs], "system")
    if trainings:
        yield from ("", "### By model (Fig. 9)", "")
        yield from ("Recorded CPU trainings, cropped with the true marks to all of their epochs, by model.", "")
        yield from grouped_table([(model, as_in_the_paper(each)) for model, each in trainings], "model")

    yield from ("", "### By metric (why DRAMA)", "", "Simulated `paper` traces, the recipe cropped to ten epochs.", "")
    names: Sequence[str] = [name for name in SIMULATED_METRICS if all(name in each.metrics for each, _ in crops)]
    yield from metric_table(crops, names, papers[: max(1, traces // 3)])
    if trainings:
        yield "\nRecorded CPU trainings, cropped with the true marks for the recipe.\n"
        runs = [as_in_the_paper(each) for _, each in trainings]
        of_names: dict[tuple[str, ...], list[int]] = {}
        for index, (each, _) in enumerate(runs):
            of_names.setdefault(tuple(sorted(each.metrics)), []).append(index)
        for names, members in sorted(of_names.items()):
            yield from metric_table([runs[i] for i in members], names, [trainings[i][1] for i in members])
            yield ""


if __name__ == "__main__":
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=3000)
    parser.add_argument("--traces", type=int, default=36)
    chosen = parser.parse_args()
    publish(DETECTOR, "sensitivity", report(chosen.seed, chosen.traces), write=chosen.write)
