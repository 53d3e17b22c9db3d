"""How right the methods are: on the recorded CPU runs, and on simulated jobs of 3 to 100 epochs, uncropped.

Run: EPOCHCAST_SHARED=../shared python benchmarks/detector/accuracy.py [--seed 0] [--traces 60]

The recorded runs are the ones that the tracker was developed on. Simulated traces come from the project's own simulator: they
show that the methods do what they should where epochs are visible, not how they fare on a real GPU.
"""

import argparse
import json
import os
from collections import defaultdict
from pathlib import Path

import numpy as np

from epochcast.detector import METHODS, detect
from epochcast.detector.evaluation import Labels, TraceScore, score_trace, summarise
from epochcast.detector.simulator import SimulatedTrace, simulate

FOUR = ("dram_active", "sm_active", "pcie_rx", "power")
COLUMNS = ("n", "answered", "mape", "median_ape", "within_5", "boundary_f1", "baseline_mape", "n_other", "false_alarms")


def recorded() -> dict[str, list[TraceScore]]:
    """Scores by method and clock; nothing where the data is absent."""
    folder = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "detector" / "cpu_training"
    scores = defaultdict(list)
    for path in sorted(folder.glob("*.csv")):
        table = np.genfromtxt(path, delimiter=",", names=True)
        metrics = {name: table[name] for name in table.dtype.names if name != "t"}
        labels = Labels.from_json(json.loads(path.with_suffix(".json").read_text()))
        for method in METHODS:
            for clock in ("work", "wall"):
                found = detect(table["t"], metrics, method=method, clock=clock)
                row = score_trace(path.stem, found, labels, table["t"], metrics)
                scores[f"recorded {method} {clock}"].append(row)
                if (method, clock) == ("track", "work"):
                    error = "abstained" if row.error is None else f"{row.error:.2f} %"
                    print(f"  {row.name:24} {row.verdict:7} {error:>10}  confidence {row.confidence:.2f}")
    return scores


def job(rng: np.random.Generator, seed: int) -> SimulatedTrace:
    """A training of random shape: 3 to 100 epochs of 5 to 200 s, with validation, gaps and checkpoints of every kind."""
    epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
    epochs = min(int(np.exp(rng.uniform(np.log(3), np.log(101)))), 3 + int(4000 / epoch_s))
    return simulate(
        seed,
        epochs=epochs,
        epoch_s=epoch_s,
        validation_s=rng.uniform(0.04, 0.2) * epoch_s,
        gap_s=min(rng.uniform(0.1, 0.6), 0.1 * epoch_s),
        checkpoint_every=int(rng.choice([0, 1, 3])),
        checkpoint_s=min(0.1 * epoch_s, rng.uniform(0.2, 1.5)),
    )


def simulated(seed: int, traces: int) -> dict[str, list[TraceScore]]:
    """Scores by method on four metrics; the tracker's also on all."""
    rng = np.random.default_rng(seed)
    jobs = [job(rng, seed + number) for number in range(traces)]
    jobs += [simulate(seed + number, kind=kind) for kind in ("serving", "idle") for number in range(10)]
    scores = defaultdict(list)
    for number, trace in enumerate(jobs):
        labels = Labels.from_json(trace.labels())
        for method in METHODS:
            metrics = {name: trace.metrics[name] for name in FOUR}
            found = detect(trace.time, metrics, method=method)
            scores[f"simulated {method}"].append(score_trace(str(number), found, labels, trace.time, metrics))
        found = detect(trace.time, trace.metrics)
        scores["simulated track, all metrics"].append(score_trace(str(number), found, labels, trace.time, trace.metrics))
    return scores


def main() -> None:
    """Print one line per method, data and clock."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--traces", type=int, default=60)
    options = parser.parse_args()
    scores = {**recorded(), **simulated(options.seed, options.traces)}
    print(f"{'':30}" + "".join(f"{name:>14}" for name in COLUMNS))
    for name, rows in scores.items():
        line = summarise(rows)
        print(f"{name:30}" + "".join(f"{'-' if line[key] is None else format(line[key], '.3g'):>14}" for key in COLUMNS))


if __name__ == "__main__":
    main()
