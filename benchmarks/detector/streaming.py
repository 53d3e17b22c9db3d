"""Detection while the job runs, beside detection on the whole trace: cost, delay, agreement.

Run: OMP_NUM_THREADS=1 python -m benchmarks.detector.streaming [--seed 0] [--traces 0] [--minutes 30]

Cost is CPU time of this process over simulated time: eight GPUs, five metrics each at 10 Hz, one update a second. Agreement is
that of 30 traces, real ones (`EPOCHCAST_SHARED`) at 20 Hz to one sample in 30 s and simulated ones; with `--traces`, also of so
many of every class of `epochcast.detector.simulator`.
"""

import argparse
import json
import os
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from epochcast.detector import Detection, detect
from epochcast.detector.evaluation import TOLERANCE, boundary_f1
from epochcast.detector.simulator import CLASSES, simulate, simulate_class
from epochcast.detector.stream import Stream

METRICS = ("dram_active", "sm_active", "pcie_rx", "power", "memory_used")
GPUS = 8
CHUNK = 10  # samples of 0.1 s: one update a second

REAL = Path(os.environ.get("EPOCHCAST_SHARED", "../shared")) / "data" / "real_traces"

#: The 30 traces: 16 real ones, of every recorder, uncropped ends and a change of the period among them, ...
REAL_TRACES = (
    *("h100_ckpt1_gpu0", "h100_ckpt1_gpu3", "h100_ckpt1_gpu6", "regimes/h100_ckpt100_gpu0"),
    *("gtx970_1_keras_100_0", "gtx970_1_pytorch_100_1", "gtx970_4_keras_100_0", "gtx970_4_keras_20_0"),
    *("titanx_2025-12-04-01-22-31_gpu0", "titanx_2025-12-05-01-42-25_gpu1"),
    *("wandb_RuoyiGAO_3D_molecular_representation_6se9mw1u", "wandb_Kyrylo-Shyvam_LSTM-Pruning_ra67iram"),
    *("wandb_haoming-chen2006_LLM4Tracking_rqlpj416", "wandb_AbrahamWG_bridge-rna_6305cvve"),
    *("wandb_boostcampaitech2_object-detection-level2-cv-15_19s5w4br", "more/wandb2_EvanSamaa_Gaze_project_naj9brub_gpu1"),
)

#: ... and 14 simulated ones, with seed 1: what recurs twice in an epoch, other periods, rest before and after.
SIMULATED_TRACES = (
    *("paper", "validation", "gap", "short", "messy", "iterations", "evaluations", "checkpoints"),
    *("half_duty", "varying", "changing", "lead", "resumed", "llm_steps"),
)

#: Statements this far from the truth are wrong; a stream agrees with the whole trace's period within this share.
WRONG, SAME = 0.10, 0.02

#: Wall seconds below which a cycle is called steps, as in `methods.track.detect`.
SHORTEST_EPOCH_S = 4.0

Chunk = tuple[np.ndarray, dict[str, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """One trace to follow.

    Attributes:
        name: of the trace, or its class.
        time: (n,) unix seconds.
        metrics: name -> (n,).
        starts: (k,) true starts of epochs; empty without training.
    """

    name: str
    time: np.ndarray
    metrics: Mapping[str, np.ndarray]
    starts: np.ndarray

    @property
    def true(self) -> float:
        """The median true epoch in seconds, NaN without training."""
        return float(np.median(np.diff(self.starts))) if self.starts.size > 1 else np.nan

    @property
    def step_s(self) -> float:
        """Seconds between samples."""
        return float(np.median(np.diff(self.time)))


def simulated(cls: str, seed: int) -> Case:
    """A trace of a class of the simulator; some classes have only what NVML reads."""
    trace = simulate_class(cls, seed)
    names = METRICS if METRICS[0] in trace.metrics else tuple(trace.metrics)
    starts = trace.epoch_starts if trace.training else np.empty(0)
    return Case(cls, trace.time, {name: trace.metrics[name] for name in names}, starts)


def real(name: str) -> Case:
    """A trace of `REAL`."""
    table = pd.read_csv(REAL / f"{name}.csv.gz", comment="#")
    starts = np.array(json.loads((REAL / f"{name}.json").read_text())["epoch_starts"])
    time_ = table.pop("time").to_numpy()
    return Case(name, time_, {column: table[column].to_numpy() for column in table}, starts)


#: Columns of the table by class, from the rows of `followed`.
COLUMNS = {
    "n": ("case", "size"),
    "verdict and period as offline": ("same", "mean"),
    "once closed": ("same_closed", "mean"),
    "boundary F1 with offline": ("f1", "mean"),
    "their distance [s]": ("distance", "median"),
    "right": ("right", "mean"),
    "right offline": ("right_offline", "mean"),
    "first answer [epochs]": ("first", "median"),
    "ever wrong": ("wrong", "mean"),
    "searches": ("searches", "mean"),
}


def chunks(case: Case) -> Iterator[Chunk]:
    """The trace as a service would get it: about every second, or row by row."""
    rows = max(1, round(1 / case.step_s))
    for i in range(0, case.time.size, rows):
        yield case.time[i : i + rows], {name: values[i : i + rows] for name, values in case.metrics.items()}


def cost(seed: int, minutes: float) -> None:
    """Print the share of a core and the memory that eight streams take."""
    rng = np.random.default_rng(seed)
    feeds = []
    for gpu in range(GPUS):
        epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
        settings = {"validation_s": 0.1 * epoch_s, "gap_s": 0.3, "checkpoint_s": 0.02 * epoch_s}
        trace = simulate(seed + gpu, epochs=int(60 * minutes / epoch_s) + 1, epoch_s=epoch_s, **settings)
        case = Case("", trace.time, {name: trace.metrics[name] for name in METRICS}, trace.epoch_starts)
        feeds.append(list(chunks(case)))
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
    searches = sum(stream.searches for stream in streams)
    print(f"  {spent:.1f} CPU seconds, {100 * spent / updates:.2f} % of a core; slowest update {1e3 * slowest:.0f} ms")
    print(
        f"  {searches} searches; answers: "
        + ", ".join("none yet" if s.detection is None else s.detection.verdict for s in streams)
    )
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


def followed(case: Case) -> dict[str, object]:
    """Stream a trace, search the whole of it offline, and compare."""
    true = case.true
    stream, last, first, early = Stream(tuple(case.metrics), step_s=case.step_s), None, np.nan, []
    for now, values in chunks(case):
        last = stream.update(now, values)
        if last is not None and last.period_s is not None:
            if np.isnan(first) and last.verdict == "epochs":
                first = float(now[-1] - case.starts[0]) / true if case.starts.size else np.nan
            early.append((last.verdict, last.period_s))
    offline = detect(case.time, dict(case.metrics))
    closed = stream.close()
    right_offline = abs(period(offline) / true - 1) < TOLERANCE
    # Where the period changes, that of the present part is right, and so is silence.
    parts = [stretch.period_s for stretch in offline.stretches] if len(offline.stretches) > 1 else [true]
    false = [
        told
        for verdict, told in early
        if not min(abs(told / part - 1) for part in parts) <= WRONG and (verdict == "epochs" or parts[0] >= SHORTEST_EPOCH_S)
    ]
    row = {
        "case": case.name,
        "step_s": case.step_s,
        "true": true,
        "offline": period(offline),
        "stream": period(last) if last is not None else np.nan,
        "verdict_offline": offline.verdict,
        "verdict": "-" if last is None else last.verdict,
        "same": same(last, offline),
        "same_closed": same(closed, offline),
        "right_offline": right_offline,
        "right": last is not None and abs(period(last) / true - 1) < TOLERANCE,
        "first": first,
        "wrong": bool(false) and (right_offline or len(parts) > 1),
        "false": false[0] if false else np.nan,
        "searches": stream.searches,
    }
    if last is not None and offline.epochs and last.epochs:
        row["f1"] = boundary_f1(marks(offline), marks(last), TOLERANCE * period(offline))
        row["distance"] = float(np.median([np.abs(marks(offline) - mark).min() for mark in marks(last)]))
    return row


def same(live: Detection | None, offline: Detection) -> bool:
    """Whether a stream has the verdict and the period of the whole trace; where that changes, the period of its last part."""
    if live is not None and live.period_s is not None and offline.reason == "period_changes":
        return abs(live.period_s / offline.stretches[-1].period_s - 1) < WRONG
    if (live.verdict if live is not None else "none") != offline.verdict:
        return False
    return offline.period_s is None or (live is not None and abs(period(live) / offline.period_s - 1) < SAME)


def agreement() -> None:
    """Print the 30 traces, one a line, and on how many the stream ends as the whole trace."""
    cases = [real(name) for name in REAL_TRACES] if REAL.is_dir() else []
    rows = [followed(case) for case in [*cases, *(simulated(cls, 1) for cls in SIMULATED_TRACES)]]
    table = pd.DataFrame(rows)
    print("\n" + table.round(3).to_string(na_rep="-", max_colwidth=32))
    print(
        f"of {len(table)} traces {table['same'].sum()} have the verdict and the period of the whole at the last sample, "
        f"{table['same_closed'].sum()} once closed; {table['wrong'].sum()} ever wrong"
    )


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
    parser.add_argument("--traces", type=int, default=0, help="per class")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--cls", action="append", help="only these classes")
    arguments = parser.parse_args()
    if arguments.minutes:
        cost(arguments.seed, arguments.minutes)
    agreement()
    seeds = range(arguments.seed, arguments.seed + arguments.traces)
    rows = [followed(simulated(cls, seed)) for cls in arguments.cls or CLASSES for seed in seeds]
    if not rows:
        return
    table = pd.DataFrame(rows)
    kind = [
        "visible" if CLASSES[cls].visible else "training, hardly visible" if CLASSES[cls].training else "no training"
        for cls in table["case"]
    ]
    for by in (table["case"], pd.Series(kind, name="kind")):
        print("\n" + table.groupby(by, sort=False).agg(**COLUMNS).astype(float).round(2).to_string(na_rep="-"))


if __name__ == "__main__":
    main()
