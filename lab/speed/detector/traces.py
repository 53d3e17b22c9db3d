"""Labelled traces that the detector is measured on: simulated, of real GPUs, CPU trainings, MLPerf's nodes; cropped, thinned.

What others measured is public data (`EPOCHCAST_SHARED`); where it is absent, a measurement says so and leaves it out.

Run to write a folder of traces for `python -m lab.evaluate detector --data DIR`, each with its labels next to it:

    python -m lab.speed.detector.traces --out DIR [--traces 10] [--seed 0] [--cls NAME]...    simulated ones, CLASS-SEED
    python -m lab.speed.detector.traces --out DIR --data FOLDER [--prefix NAME]...    every 2nd, 4th, 8th sample, NAME-EVERY
"""

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.traces.labels import read_labels
from epochcast.analyzer.traces.trace import Trace, read_trace, write_trace
from epochcast.common.files import write_whole
from epochcast.detector.labels import Labels
from lab.corpus.labelled_traces import labelled_traces
from lab.evaluate.detection import RESOLVED
from lab.evaluate.mlperf import mlperf_runs
from lab.simulator import CLASSES, SimulatedTrace, simulate_class
from lab.speed.page import ROOT, SHARED, options

REAL = SHARED / "real_traces"
MLPERF = tuple(SHARED / "detector" / f"mlperf_v4.0_{kind}.csv.gz" for kind in ("power", "events"))
CPU_TRAININGS = {"shared": SHARED / "detector" / "cpu_training", "our own": ROOT / "data" / "cpu_training"}

#: Classes with epochs that somebody sees in a plot, with epochs that nobody or not everybody sees, and without epochs.
VISIBLE = tuple(name for name, spec in CLASSES.items() if spec.training and spec.visible)
HIDDEN = tuple(name for name, spec in CLASSES.items() if spec.training and not spec.visible)
OTHER = tuple(name for name, spec in CLASSES.items() if not spec.training)

THINNED = (2, 4, 8)


@dataclass(frozen=True)
class LabelledTrace:
    """A trace with its truth; `origin` says where it comes from."""

    name: str
    trace: Trace
    labels: Labels
    origin: str = ""

    @property
    def time(self) -> NDArray[np.float64]:
        """(n,) unix seconds."""
        return self.trace.time

    @property
    def metrics(self) -> dict[str, NDArray[np.float64]]:
        """Name -> (n,)."""
        return self.trace.metrics()

    @property
    def sample_s(self) -> float:
        """Seconds between samples, the median."""
        return float(np.median(np.diff(self.time)))

    @property
    def period_s(self) -> float:
        """The median true epoch in seconds, NaN without training."""
        return float(np.median(np.diff(self.labels.epoch_starts))) if self.labels.training else np.nan

    def cropped(self, number: int) -> "LabelledTrace":
        """From the first true epoch's start to the end of the `number`-th, as the paper crops."""
        starts, ends = self.labels.epoch_starts[:number], self.labels.epoch_ends[:number]
        if len(starts) < number:
            raise ValueError(f"{self.name} has {len(starts)} epochs, not {number}")
        inside = (self.time >= starts[0]) & (self.time <= ends[-1])
        frame = self.trace.frame[inside].reset_index(drop=True).dropna(axis="columns", how="all")
        labels = Labels(starts, ends, training=True, cls=f"{number} epochs")
        return replace(self, trace=replace(self.trace, frame=frame), labels=labels)

    def thinned(self, every: int, *, carried: bool = False) -> "LabelledTrace":
        """One row of so many; `carried`: each metric as it was read last."""
        frame = self.trace.frame.ffill() if carried else self.trace.frame
        return replace(self, trace=replace(self.trace, frame=frame[::every].reset_index(drop=True)))


def of_simulation(run: SimulatedTrace, name: str) -> LabelledTrace:
    """What the simulator made."""
    trace = Trace(pd.DataFrame({"time": run.time, **run.metrics}), gpu=run.gpu, source="simulator", simulated=True)
    return LabelledTrace(name, trace, Labels.from_json(run.labels()))


def simulated(cls: str, seed: int) -> LabelledTrace:
    """The trace of a class and a seed."""
    run = simulate_class(cls, seed)
    return replace(of_simulation(run, f"{cls}-{seed}"), origin=f"simulated {run.gpu}, class `{cls}`, seed {seed}")


def recorded(folder: Path, origin: str = "") -> Iterator[LabelledTrace]:
    """Recorded traces with label files; none where the folder is absent."""
    if not folder.is_dir():
        print(f"(no recordings in {folder}: left out)")
        return
    for name, trace, labels in labelled_traces(folder):
        yield LabelledTrace(name, trace, labels, f"{origin}, `{name}`")


def real(name: str) -> LabelledTrace:
    """A trace of a real GPU, by its path in `REAL` without suffix."""
    path = REAL / f"{name}.json"
    trace = read_trace(REAL / f"{name}.csv.gz")
    return LabelledTrace(path.stem, trace, read_labels(path), f"{trace.gpu}, `{path.stem}`")


def mlperf(*, resolved: bool = True) -> Iterator[LabelledTrace]:
    """Power of MLPerf's nodes; by default only runs whose period has enough samples. None where the data is absent."""
    power, events = MLPERF
    if not power.exists():
        print(f"(no {power.name} in {power.parent}: left out)")
        return
    for name, trace, labels in mlperf_runs(power, events):
        run = LabelledTrace(name, trace, labels)
        if not resolved or run.period_s >= RESOLVED * run.sample_s:
            yield run


def main() -> None:
    """Write all traces that the options ask for."""
    parser = options(__doc__, page=False)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--traces", type=int, default=10, help="simulated ones per class")
    parser.add_argument("--seed", type=int, default=0, help="of the first of these")
    parser.add_argument("--cls", action="append", choices=CLASSES, help="a class; all without")
    parser.add_argument("--data", type=Path, help="folder of traces to thin, each with NAME.json next to it")
    parser.add_argument("--prefix", action="append", help="of the names to thin; all without")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    if chosen.data is not None:
        for each in recorded(chosen.data):
            if each.name.startswith(tuple(chosen.prefix or [""])):
                for every in THINNED:
                    write_trace(each.thinned(every).trace, chosen.out / f"{each.name}-{every}.parquet")
                    shutil.copy(chosen.data / f"{each.name}.json", chosen.out / f"{each.name}-{every}.json")
        return
    for cls in chosen.cls or CLASSES:
        for seed in range(chosen.seed, chosen.seed + chosen.traces):
            run = simulate_class(cls, seed)
            path = chosen.out / f"{cls}-{seed}.parquet"
            write_trace(of_simulation(run, path.stem).trace, path)
            labels = json.dumps(run.labels(), indent=1).encode()
            write_whole(path.with_suffix(".json"), partial(lambda labels, file: file.write(labels), labels))


if __name__ == "__main__":
    main()
