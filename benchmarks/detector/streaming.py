"""Detection while the job runs, beside detection on the whole trace: cost, delay, agreement.

Run: OMP_NUM_THREADS=1 python benchmarks/detector/streaming.py [--seed 0] [--traces 1] [--minutes 30]

Cost is CPU time of this process over simulated time: eight GPUs, five metrics each at 10 Hz, one update a second. Traces are
simulated, of every class of `epochcast.detector.simulator`.
"""

import argparse
import time
import tracemalloc
from collections.abc import Sequence

import numpy as np
import pandas as pd

from epochcast.detector import Detection, detect
from epochcast.detector.evaluation import TOLERANCE, boundary_f1
from epochcast.detector.simulator import CLASSES, SimulatedTrace, simulate, simulate_class
from epochcast.detector.stream import Stream

METRICS = ("dram_active", "sm_active", "pcie_rx", "power", "memory_used")
GPUS = 8
CHUNK = 10  # samples of 0.1 s: one update a second

Chunk = tuple[np.ndarray, dict[str, np.ndarray]]

#: Columns of the table, from the rows of `followed`.
COLUMNS = {
    "n": ("cls", "size"),
    "verdict as offline": ("same_verdict", "mean"),
    "period as offline": ("same_period", "mean"),
    "boundary F1 with offline": ("f1", "mean"),
    "their distance [s]": ("distance", "median"),
    "right": ("right", "mean"),
    "right offline": ("right_offline", "mean"),
    "first answer [epochs]": ("first", "median"),
    "ever wrong": ("wrong", "mean"),
    "searches": ("searches", "mean"),
}


def chunks(trace: SimulatedTrace, names: Sequence[str] = METRICS) -> list[Chunk]:
    """The trace as a service would get it."""
    return [
        (trace.time[i : i + CHUNK], {name: trace.metrics[name][i : i + CHUNK] for name in names})
        for i in range(0, trace.time.size, CHUNK)
    ]


def cost(seed: int, minutes: float) -> None:
    """Print the share of a core and the memory that eight streams take."""
    rng = np.random.default_rng(seed)
    feeds = []
    for gpu in range(GPUS):
        epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
        settings = {"validation_s": 0.1 * epoch_s, "gap_s": 0.3, "checkpoint_s": 0.02 * epoch_s}
        feeds.append(chunks(simulate(seed + gpu, epochs=int(60 * minutes / epoch_s) + 1, epoch_s=epoch_s, **settings)))
    updates = int(60 * minutes)
    streams = [Stream(METRICS) for _ in feeds]
    slowest = 0.0
    begun = time.process_time()
    for i in range(updates):
        for stream, feed in zip(streams, feeds, strict=True):
            before = time.process_time()
            stream.update(*feed[i])
            slowest = max(slowest, time.process_time() - before)
    spent = time.process_time() - begun
    print(f"{GPUS} GPUs x {len(METRICS)} metrics, {minutes:g} min at 10 Hz, one update a second:")
    print(f"  {spent:.1f} CPU seconds, {100 * spent / updates:.2f} % of a core; slowest update {1e3 * slowest:.0f} ms")
    print("  answers: " + ", ".join("none yet" if s.detection is None else s.detection.verdict for s in streams))
    del streams
    tracemalloc.start()
    streams = [Stream(METRICS) for _ in feeds]
    for i in range(min(updates, 200)):
        for stream, feed in zip(streams, feeds, strict=True):
            stream.update(*feed[i])
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = sum(stream.nbytes for stream in streams)
    print(f"  {held / 1e6:.1f} MB held ({arrays / 1e6:.1f} MB of it arrays), {peak / 1e6:.1f} MB at most during a search")


def followed(trace: SimulatedTrace) -> dict[str, object]:
    """Stream a trace, search the whole of it offline, and compare."""
    true = float(np.median(np.diff(trace.epoch_starts))) if trace.training else np.nan
    names = METRICS if METRICS[0] in trace.metrics else tuple(trace.metrics)  # some classes have only what NVML tells
    stream, last, first, wrong = Stream(names), None, np.nan, False
    for now, values in chunks(trace, names):
        last = stream.update(now, values)
        if last is not None and last.verdict == "epochs":
            if trace.training and np.isnan(first):
                first = float(now[-1] - trace.epoch_starts[0]) / true
            wrong |= not abs(period(last) / true - 1) <= 0.10
    offline = detect(trace.time, {name: trace.metrics[name] for name in names})
    both = last is not None and last.verdict == offline.verdict
    row = {
        "cls": trace.cls,
        "same_verdict": both or (last is None and offline.verdict == "none"),
        "right_offline": abs(period(offline) / true - 1) < TOLERANCE,
        "right": last is not None and abs(period(last) / true - 1) < TOLERANCE,
        "first": first,
        "wrong": wrong,
        "searches": stream.searches,
    }
    if last is not None and both and offline.period_s is not None:
        row["same_period"] = abs(period(last) / period(offline) - 1) < 0.02
        if offline.epochs:
            row["f1"] = boundary_f1(marks(offline), marks(last), TOLERANCE * period(offline))
            row["distance"] = float(np.median([np.abs(marks(offline) - mark).min() for mark in marks(last)]))
    return row


def period(found: Detection) -> float:
    """Seconds, NaN without an answer."""
    return np.nan if found.period_s is None else found.period_s


def marks(found: Detection) -> np.ndarray:
    """Boundaries of an answer."""
    return np.array([*[epoch.start for epoch in found.epochs], *[epoch.end for epoch in found.epochs[-1:]]])


def main() -> None:
    """Print cost, then agreement by class."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--traces", type=int, default=1, help="per class")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--cls", action="append", help="only these classes")
    arguments = parser.parse_args()
    if arguments.minutes:
        cost(arguments.seed, arguments.minutes)
    rows = []
    for cls in arguments.cls or CLASSES:
        for seed in range(arguments.seed, arguments.seed + arguments.traces):
            rows.append(followed(simulate_class(cls, seed)))
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}, flush=True)
    table = pd.DataFrame(rows)
    kind = [
        "visible" if CLASSES[cls].visible else "training, hardly visible" if CLASSES[cls].training else "no training"
        for cls in table["cls"]
    ]
    for by in (table["cls"], pd.Series(kind, name="kind")):
        print("\n" + table.groupby(by, sort=False).agg(**COLUMNS).astype(float).round(2).to_string(na_rep="-"))


if __name__ == "__main__":
    main()
