"""Second jobs on one device: how many traces of one job get a second one, and how many of two jobs get both.

Run: EPOCHCAST_SHARED=../shared OMP_NUM_THREADS=1 python -m benchmarks.detector.second_jobs [--traces 100] [--two 20]

One job: simulated traces of all visible classes with a single job, in turn: at 0.1 s with all metrics, thinned to one row of
ten, and of the metrics of NVML alone, also thinned; then all real traces of one job, those of 0.05 and 0.1 s also thinned to
about 1 s. Every answer with more than one job (`Detection.jobs`) is false; `second, first right` are those whose period is
right, so that nothing but the second job misleads.

Two jobs: the simulator's class `two_jobs`; both periods within 5 % of the truth, in any order, each answered job used once.
"""

import argparse
from multiprocessing import Pool
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.traces.labels import labelled_traces
from epochcast.detector import detect
from epochcast.detector.evaluation import Labels, score_trace
from epochcast.detector.simulator import CLASSES, simulate_class

from .comparison import SHARED

NVML = ("gpu_utilization", "memory_utilization", "power", "power_average", "temperature", "memory_used", "sm_clock")
READ = ("0.1 s", "1 s", "1 s, NVML")

#: Classes of visible epochs of a single job; `shared` and `lead` have another process on the device.
ONE = tuple(cls for cls, spec in CLASSES.items() if spec.visible and cls not in ("shared", "lead"))


Metrics = dict[str, NDArray[np.float64]]


def thinned(time: NDArray[np.float64], metrics: Metrics, interval_s: float) -> tuple[NDArray[np.float64], Metrics]:
    """A row about every `interval_s`, each metric as it was read last."""
    every = max(1, round(interval_s / float(np.median(np.diff(time)))))
    rows = pd.DataFrame(metrics).ffill()[::every]
    return time[::every], {name: rows[name].to_numpy(dtype=np.float64) for name in rows}


def row(name: str, group: str, time: NDArray[np.float64], metrics: Metrics, labels: Labels) -> dict[str, Any]:
    """What the answer's jobs are worth."""
    answer = detect(time, metrics)
    score = score_trace(name, answer, labels, time, metrics)
    return {
        "name": name,
        "group": group,
        "answered": answer.period_s is not None,
        "right": score.right,
        "jobs": len(answer.jobs),
        "second": len(answer.jobs) > 1,
        "second, first right": len(answer.jobs) > 1 and score.right,
        "both": score.jobs == 2 and score.jobs_found == 2,
        "true": ", ".join(f"{np.median(np.diff(starts)):.1f}" for starts, _ in labels.jobs),
        "stated": ", ".join(f"{job.period_s:.1f} ({job.confidence:.2f})" for job in answer.jobs),
    }


def simulated(cls: str, seed: int, reading: str) -> dict[str, Any]:
    """The row of one simulated trace, read in one of the ways `READ`."""
    trace = simulate_class(cls, seed)
    time, metrics = trace.time, trace.metrics
    if reading.endswith("NVML"):
        metrics = {name: values for name, values in metrics.items() if name in NVML}
    if reading.startswith("1 s"):
        time, metrics = thinned(time, metrics, 1.0)
    return row(f"{cls}-{seed}", f"simulated, {reading}", time, metrics, Labels.from_json(trace.labels()))


def real() -> list[dict[str, Any]]:
    """Rows of the real traces of one job."""
    folder, rows = SHARED / "data" / "real_traces", []
    for name, trace, labels in labelled_traces(folder) if folder.is_dir() else ():
        if not labels.training or len(labels.jobs) > 1:
            continue
        time, metrics = trace.time, trace.metrics()
        rows.append(row(name, f"real, {name.split('_')[0]}", time, metrics, labels))
        if np.median(np.diff(time)) < 0.5:
            rows.append(row(name, f"real, {name.split('_')[0]} at 1 s", *thinned(time, metrics, 1.0), labels))
    return rows


def printed(rows: pd.DataFrame, columns: tuple[str, ...]) -> None:
    """Counts by group and of all, then the traces with several jobs."""
    counts = rows.groupby("group", sort=False)[list(columns)].sum()
    counts.insert(0, "traces", rows.groupby("group", sort=False).size())
    counts.loc["all"] = counts.sum()
    print("\n" + counts.astype(int).to_string())
    for one in rows[rows["second"]].to_dict("records"):
        print(f"  {one['name']} ({one['group']}): true {one['true']} s, stated {one['stated']}")


def main() -> None:
    """Print the table of one job, then that of two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=27000, help="of the first simulated trace of one job")
    parser.add_argument("--traces", type=int, default=100, help="simulated ones of one job, for each way to read them")
    parser.add_argument("--two", type=int, default=20, help="simulated traces of two jobs")
    parser.add_argument("--two-seed", type=int, default=0, help="of the first of these")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    with Pool(options.processes) as pool:
        two = [("two_jobs", options.two_seed + i, reading) for reading in READ[:2] for i in range(options.two)]
        both = pd.DataFrame(pool.starmap(simulated, two, chunksize=1))
        one = [(ONE[i % len(ONE)], options.seed + i, reading) for reading in READ for i in range(options.traces)]
        alone = pd.DataFrame([*pool.starmap(simulated, one, chunksize=1), *real()])
    print("one job: answers with a second one are false")
    printed(alone, ("answered", "right", "second", "second, first right"))
    print("\ntwo jobs")
    printed(both, ("answered", "right", "second", "both"))
    first = both.groupby("group", sort=False).head(10).groupby("group", sort=False)["both"].sum()
    print("both, of the first 10 seeds: " + ", ".join(f"{name}: {int(number)}" for name, number in first.items()))


if __name__ == "__main__":
    main()
