"""Fit the tracker's confidence: writes the weights that stand in detector/methods/track/confidence.json.

Run: EPOCHCAST_SHARED=../shared python benchmarks/detector/calibrate.py [--first 3000] [--traces 70] [--out FILE]

Rows: every track of simulated traces of every class but `few` (of two or three epochs the true one is a matter of opinion), on
the subsets of metrics that recorders have, and of every second MLPerf run (where the data is there). A track is right if its
period is within 5 % of the truth; on a trace without training only as the steps of a step loop. What it prints is for traces
that no fold's network has seen (groups are traces); the figures in the documentation come from other seeds still.
"""

import argparse
import gzip
import json
import os
from collections import Counter
from itertools import groupby
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from epochcast.analyzer.adapters.mlperf_power import marks_by_run, power_by_run
from epochcast.detector import InputError
from epochcast.detector import clock as clocks
from epochcast.detector.methods.track import confidence
from epochcast.detector.methods.track.cycle import followed, preferred
from epochcast.detector.methods.track.grid import build, busy_stretches
from epochcast.detector.signals import Signals, clean
from epochcast.detector.simulator import CLASSES, simulate_class

SHORTEST_EPOCH_S = 4.0
CANDIDATES = 6
UNITS, PENALTY, NETWORKS = 16, 1.0, 5

#: What recorders typically have: everything, the paper's best with three more, NVML only, one or two.
SUBSETS: tuple[tuple[str, ...] | None, ...] = (
    None,
    ("dram_active", "sm_active", "pcie_rx", "power"),
    ("dram_active", "sm_active", "pcie_rx", "power"),
    ("gpu_utilization", "memory_utilization", "power", "memory_used", "sm_clock", "temperature"),
    ("dram_active",),
    ("sm_active", "power"),
    ("power",),
)

#: So many of these are full sets.
FULL = 3

#: A track of a recorded run counts as much as so many of simulated ones: there are few.
RECORDED = 10.0

#: Classes whose traces are also searched on the work clock, as the tracker does where the wall clock leaves it unsure.
BOTH_CLOCKS = ("shared", "throttled", "unfreezing", "bursts", "serving", "notebook")


def rows_of(signals: Signals, clock: clocks.Clock, truths: list[float], steps: bool) -> list[dict[str, Any]]:
    """One row per track: its period [wall s], whether it is right, and its evidence."""
    grid = build(signals, clock, busy_stretches(signals)[0])
    tracks = [] if grid is None else followed(grid, CANDIDATES)
    rows = []
    for track in tracks:
        assert grid is not None
        period = track.samples * grid.step
        if clock.name == "work":
            period = float(np.median(np.diff(clock.to_wall(grid.reading(track.boundaries * track.size)))))
        right = any(abs(period / true - 1) < 0.05 for true in truths) or (steps and period < SHORTEST_EPOCH_S)
        evidence = confidence.of_track(track, tracks, grid.values.shape[0], SHORTEST_EPOCH_S / grid.step)
        rows.append({"period": period, "right": bool(right), "evidence": evidence})
    return rows


def simulated(cls: str, seed: int) -> list[dict[str, Any]]:
    """The rows of one simulated trace."""
    trace = simulate_class(cls, seed)
    subset = SUBSETS[seed % len(SUBSETS)]
    known = {name: values for name, values in trace.metrics.items() if subset is None or name in subset}
    signals = clean(trace.time, known or trace.metrics)  # a log of NVML's metrics may have none of the subset
    truths = [float(np.median(np.diff(starts))) for starts in (trace.epoch_starts, trace.epoch_starts2) if len(starts) > 1]
    rows = []
    for name in ("wall", "work") if cls in BOTH_CLOCKS else ("wall",):
        try:
            clock = clocks.choose(signals, name)  # type: ignore[arg-type]
        except InputError:  # no activity among the metrics
            continue
        weight = 2.0 if seed % len(SUBSETS) < FULL else 1.0
        rows += [
            {"trace": f"{cls} {seed}", "weight": weight, **row} for row in rows_of(signals, clock, truths, CLASSES[cls].steps)
        ]
    return rows


def recorded() -> list[dict[str, Any]]:
    """The rows of every second MLPerf run; none where the data is absent."""
    folder = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "detector"
    power, events = folder / "mlperf_v4.0_power.csv.gz", folder / "mlperf_v4.0_events.csv.gz"
    if not power.exists():
        print(f"no MLPerf runs: set EPOCHCAST_SHARED (looked in {folder})")
        return []
    marks = marks_by_run(gzip.decompress(events.read_bytes()).decode(), events.name)
    rows = []
    for number, (key, frame) in enumerate(power_by_run(gzip.decompress(power.read_bytes()).decode(), power.name)):
        if number % 2 or key not in marks:
            continue
        signals = clean(frame.pop("time").to_numpy(), {name: frame[name].to_numpy() for name in frame})
        true = float(np.median(np.diff(marks[key])))
        resolved = true >= 3 * float(np.median(np.diff(signals.time)))
        found = rows_of(signals, clocks.choose(signals, "wall"), [true] if resolved else [], steps=False)
        rows += [{"trace": f"mlperf {' '.join(key)}", "weight": RECORDED, **row} for row in found]
    return rows


def network(values: NDArray[np.float64], right: NDArray[np.bool_], weight: NDArray[np.float64]) -> dict[str, Any]:
    """A network of one layer, averaged over several beginnings by stacking their units.

    Returns:
        `mean`, `scale`, `hidden`, `bias`, `output` and `offset`, see `confidence.probability`.
    """
    scaler = StandardScaler().fit(values)
    scaled = np.clip(scaler.transform(values), -confidence.FARTHEST, confidence.FARTHEST)
    parts = [
        MLPClassifier((UNITS,), activation="tanh", alpha=PENALTY, learning_rate_init=0.003, max_iter=400, random_state=seed,
                      early_stopping=True).fit(scaled, right, sample_weight=weight)
        for seed in range(NETWORKS)
    ]  # fmt: skip
    return {
        "mean": scaler.mean_.tolist(),
        "scale": scaler.scale_.tolist(),
        "hidden": np.concatenate([part.coefs_[0].T for part in parts]).tolist(),
        "bias": np.concatenate([part.intercepts_[0] for part in parts]).tolist(),
        "output": np.concatenate([part.coefs_[1][:, 0] for part in parts] / np.float64(NETWORKS)).tolist(),
        "offset": float(np.mean([part.intercepts_[1][0] for part in parts])),
    }


def weights_of(rows: list[dict[str, Any]]) -> NDArray[np.float64]:
    """Traces with many tracks count little more than others, full sets of metrics and recorded runs more; mean 1."""
    tracks = Counter(row["trace"] for row in rows)
    weight = np.array([row["weight"] / np.sqrt(tracks[row["trace"]]) for row in rows])
    return np.asarray(weight / weight.mean())


def chosen(rows: list[dict[str, Any]], sure: NDArray[np.float64]) -> list[tuple[str, float, bool]]:
    """Per trace the class, the confidence and whether the track that the tracker would choose is right."""
    answers = []
    for trace, group in groupby(range(len(rows)), key=lambda i: str(rows[i]["trace"])):
        members = list(group)
        best = preferred([rows[i]["period"] for i in members], sure[members].tolist(), SHORTEST_EPOCH_S)
        answers.append((trace.split()[0], float(sure[members[best]]), bool(rows[members[best]]["right"])))
    return answers


def show(answers: list[tuple[str, float, bool]]) -> None:
    """Stated confidence and share of right answers, by tenths, then by class."""
    stated, right = np.array([answer[1] for answer in answers]), np.array([answer[2] for answer in answers])
    print(f"{len(answers)} traces; Brier score {np.mean((stated - right) ** 2):.4f}")
    for low in np.arange(10) / 10:
        inside = (stated >= low) & (stated < low + 0.1 + (low == 0.9))
        if inside.any():
            said, share = stated[inside].mean(), right[inside].mean()
            print(f"  {low:.1f} to {low + 0.1:.1f}: n {inside.sum():4d}  stated {said:.3f}  right {share:.3f}")
    for cls in dict.fromkeys(answer[0] for answer in answers):
        own = np.array([answer[0] == cls for answer in answers])
        sure = own & (stated >= 0.6)
        wrong = (sure & ~right).sum()
        print(f"  {cls:22} n {own.sum():3d}  right {right[own].mean():.2f}  sure {sure.sum():3d}  of them wrong {wrong}")


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 4) if isinstance(value, float) else value


def main() -> None:
    """Fit, show, write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=3000, help="first seed")
    parser.add_argument("--traces", type=int, default=70, help="per class")
    parser.add_argument("--out", type=Path, help="write the weights to this file")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.traces)
    with Pool() as pool:
        found = pool.starmap(simulated, [(cls, seed) for cls in CLASSES if cls != "few" for seed in seeds], chunksize=4)
    rows = [row for trace in found for row in trace] + recorded()
    names = list(rows[0]["evidence"])
    values = np.array([[row["evidence"][name] for name in names] for row in rows])
    right = np.array([row["right"] for row in rows])
    weight = weights_of(rows)
    sure = np.zeros(len(rows))
    for fitted, other in GroupKFold(4).split(values, right, [row["trace"] for row in rows]):
        weights = {"names": names, **network(values[fitted], right[fitted], weight[fitted])}
        sure[other] = [confidence.probability(dict(zip(names, row, strict=True)), weights) for row in values[other]]
    show(chosen(rows, sure))
    if options.out is not None:
        final = {"names": names, **network(values, right, weight)}
        lines = [f'"{name}": {json.dumps(_rounded(value))}' for name, value in final.items()]
        options.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
