"""Second jobs on one device: how many traces of one job get a second one, and how many of two jobs get both.

    EPOCHCAST_SHARED=../shared OMP_NUM_THREADS=1 python -m lab.speed.detector.second_jobs [--traces 100] [--two 20]

One job: simulated traces of all visible classes with a single job, in turn: at 0.1 s with all metrics, thinned to one row of
ten, and of the metrics of NVML alone, also thinned; then all real traces of one job, those of 0.05 and 0.1 s also thinned to
about 1 s. Every answer with more than one job (`Detection.jobs`) is false; `second, first right` are those whose period is
right, so that nothing but the second job misleads.

Two jobs: the simulator's class `two_jobs`; both periods within 5 % of the truth, in any order, each answered job used once.
"""

from collections.abc import Iterator
from dataclasses import replace
from multiprocessing import Pool
from typing import Any

import pandas as pd

from epochcast.detector import detect
from lab.evaluate.detection import score_trace
from lab.speed.detector.traces import REAL, VISIBLE, LabelledTrace, recorded, simulated
from lab.speed.page import options

NVML = ("gpu_utilization", "memory_utilization", "power", "power_average", "temperature", "memory_used", "sm_clock")
READ = ("0.1 s", "1 s", "1 s, NVML")

#: Classes of visible epochs of a single job; `shared` and `lead` have another process on the device.
ONE = tuple(cls for cls in VISIBLE if cls not in ("shared", "lead"))


def row(each: LabelledTrace, group: str) -> dict[str, Any]:
    """What the answer's jobs are worth."""
    answer = detect(each.time, each.metrics)
    score = score_trace(each.name, answer, each.labels, each.time, each.metrics)
    second = len(answer.jobs) > 1
    return {
        "name": each.name,
        "group": group,
        "answered": answer.period_s is not None,
        "right": score.right,
        "second": second,
        "second, first right": second and score.right,
        "both": score.jobs == 2 and score.jobs_found == 2,
        "stated": ", ".join(f"{job.period_s:.1f} ({job.confidence:.2f})" for job in answer.jobs),
    }


def at_1_s(each: LabelledTrace) -> LabelledTrace:
    """A row about every second, each metric as it was read last."""
    return each.thinned(max(1, round(1 / each.sample_s)), carried=True)


def simulated_row(cls: str, seed: int, reading: str) -> dict[str, Any]:
    """The row of one simulated trace, read in one of the ways `READ`."""
    each = simulated(cls, seed)
    if reading.endswith("NVML"):
        names = [name for name in each.trace.frame if name in ("time", *NVML)]
        each = replace(each, trace=replace(each.trace, frame=each.trace.frame[names]))
    return row(at_1_s(each) if reading.startswith("1 s") else each, f"simulated, {reading}")


def real_rows() -> Iterator[dict[str, Any]]:
    """Rows of the real traces of one job."""
    for each in recorded(REAL):
        if len(each.labels.jobs) == 1:
            group = f"real, {each.name.split('_')[0]}"
            yield row(each, group)
            if each.sample_s < 0.5:
                yield row(at_1_s(each), f"{group} at 1 s")


def show(rows: pd.DataFrame, columns: list[str]) -> None:
    """Counts by group and of all, then the traces with several jobs."""
    counts = rows.groupby("group", sort=False)[columns].sum()
    counts.insert(0, "traces", rows.groupby("group", sort=False).size())
    counts.loc["all"] = counts.sum()
    print("\n" + counts.astype(int).to_string())
    for each in rows[rows["second"]].to_dict("records"):
        print(f"  {each['name']} ({each['group']}): stated {each['stated']}")


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--seed", type=int, default=27000, help="of the first simulated trace of one job")
    parser.add_argument("--traces", type=int, default=100, help="simulated ones of one job, for each way to read them")
    parser.add_argument("--two", type=int, default=20, help="simulated traces of two jobs, from seed 0")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    with Pool(chosen.processes) as pool:
        two = [("two_jobs", seed, reading) for reading in READ[:2] for seed in range(chosen.two)]
        both = pd.DataFrame(pool.starmap(simulated_row, two, chunksize=1))
        one = [(ONE[i % len(ONE)], chosen.seed + i, reading) for reading in READ for i in range(chosen.traces)]
        alone = pd.DataFrame([*pool.starmap(simulated_row, one, chunksize=1), *real_rows()])
    print("one job: answers with a second one are false")
    show(alone, ["answered", "right", "second", "second, first right"])
    print("\ntwo jobs")
    show(both, ["answered", "right", "second", "both"])
