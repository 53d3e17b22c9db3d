"""Detection while the job runs, next to detection on the whole trace: cost, delay, agreement.

    OMP_NUM_THREADS=1 python -m lab.speed.detector.streaming [--seed 13000] [--traces 1] [--minutes 30]

Cost is CPU time of this process over simulated time: eight GPUs, five metrics each at 10 Hz, one update a second. Agreement is
that of 30 traces, real ones (`EPOCHCAST_SHARED`) at 20 Hz to one sample in 30 s and simulated ones; with `--traces`, also of so
many of every class of the simulator.
"""

import time
import tracemalloc
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.detector import Detection, detect
from epochcast.detector.stream import Stream
from lab.evaluate.detection import TOLERANCE
from lab.simulator import CLASSES, simulate
from lab.speed.detector.traces import HIDDEN, REAL, VISIBLE, LabelledTrace, real, simulated
from lab.speed.page import options

METRICS = ("dram_active", "sm_active", "pcie_rx", "power", "memory_used")
GPUS = 8

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

Chunk = tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]


def read(each: LabelledTrace) -> LabelledTrace:
    """A simulated trace with the five metrics; some classes have only what NVML reads."""
    if METRICS[0] not in each.metrics:
        return each
    return replace(each, trace=replace(each.trace, frame=each.trace.frame[["time", *METRICS]]))


def chunks(times: NDArray[np.float64], metrics: Mapping[str, NDArray[np.float64]]) -> Iterator[Chunk]:
    """A trace as a service would get it: about every second, or row by row."""
    rows = max(1, round(1 / float(np.median(np.diff(times)))))
    for i in range(0, times.size, rows):
        yield times[i : i + rows], {name: values[i : i + rows] for name, values in metrics.items()}


def show_cost(seed: int, minutes: float) -> None:
    """The share of a core and the memory that eight streams take."""
    rng = np.random.default_rng(seed)
    feeds = []
    for gpu in range(GPUS):
        epoch_s = float(np.exp(rng.uniform(np.log(5), np.log(200))))
        settings: dict[str, Any] = {"validation_s": 0.1 * epoch_s, "gap_s": 0.3, "checkpoint_s": 0.02 * epoch_s}
        run = simulate(seed + gpu, epochs=int(60 * minutes / epoch_s) + 1, epoch_s=epoch_s, **settings)
        feeds.append(list(chunks(run.time, {name: run.metrics[name] for name in METRICS})))
    updates = int(60 * minutes)

    def fed(count: int) -> tuple[list[Stream], float]:
        """The streams after so many updates, and CPU seconds of the slowest one."""
        streams, slowest = [Stream(METRICS) for _ in feeds], 0.0
        for i in range(count):
            for stream, feed in zip(streams, feeds, strict=True):
                before = time.process_time()
                stream.update(*feed[i])
                slowest = max(slowest, time.process_time() - before)
        return streams, slowest

    begun = time.process_time()
    streams, slowest = fed(updates)
    spent = time.process_time() - begun
    verdicts = ", ".join("none yet" if stream.detection is None else stream.detection.verdict for stream in streams)
    print(f"{GPUS} GPUs x {len(METRICS)} metrics, {minutes:g} min at 10 Hz, one update a second:")
    print(f"  {spent:.1f} CPU seconds, {100 * spent / updates:.2f} % of a core; slowest update {1e3 * slowest:.0f} ms")
    print(f"  {sum(stream.searches for stream in streams)} searches; answers: {verdicts}")
    del streams
    tracemalloc.start()
    streams, _ = fed(min(updates, 200))
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    arrays = sum(stream.nbytes for stream in streams)
    print(f"  {held / 1e6:.1f} MB held ({arrays / 1e6:.1f} MB of it arrays), {peak / 1e6:.1f} MB at most during a search")


def followed(each: LabelledTrace) -> dict[str, Any]:
    """Stream a trace, search the whole of it offline, and compare."""
    true, starts = each.period_s, each.labels.epoch_starts
    stream, last, first, said = Stream(tuple(each.metrics), step_s=each.sample_s), None, np.nan, []
    for now, values in chunks(each.time, each.metrics):
        last = stream.update(now, values)
        if last is not None and last.period_s is not None:
            if np.isnan(first) and last.verdict == "epochs" and starts:
                first = float(now[-1] - starts[0]) / true
            said.append((last.verdict, last.period_s))
    offline, closed = detect(each.time, each.metrics), stream.close()
    right_offline = abs(period(offline) / true - 1) < TOLERANCE
    # Where the period changes, that of the present part is right, and so is silence.
    parts = [stretch.period_s for stretch in offline.stretches] if len(offline.stretches) > 1 else [true]
    wrong = [
        period_s
        for verdict, period_s in said
        if not min(abs(period_s / part - 1) for part in parts) <= WRONG
        and (verdict == "epochs" or parts[0] >= SHORTEST_EPOCH_S)
    ]
    return {
        "trace": each.name,
        "class": each.labels.cls,
        "true": true,
        "offline": period(offline),
        "stream": period(last),
        "verdict_offline": offline.verdict,
        "verdict": "-" if last is None else last.verdict,
        "same": same(last, offline),
        "same_closed": same(closed, offline),
        "right": abs(period(last) / true - 1) < TOLERANCE,
        "first": first,
        "wrong": bool(wrong) and (right_offline or len(parts) > 1),
        "searches": stream.searches,
    }


def same(live: Detection | None, offline: Detection) -> bool:
    """Whether a stream has the verdict and the period of the whole trace; where that changes, the period of its last part."""
    if live is not None and live.period_s is not None and offline.reason == "period_changes":
        return abs(live.period_s / offline.stretches[-1].period_s - 1) < WRONG
    if (live.verdict if live is not None else "none") != offline.verdict:
        return False
    return offline.period_s is None or abs(period(live) / offline.period_s - 1) < SAME


def period(found: Detection | None) -> float:
    """Seconds, NaN without an answer."""
    return np.nan if found is None or found.period_s is None else found.period_s


def show_agreement() -> None:
    """The 30 traces, one a line, and on how many the stream ends as the whole trace."""
    cases = [real(name) for name in REAL_TRACES] if REAL.is_dir() else []
    table = pd.DataFrame(followed(each) for each in [*cases, *(read(simulated(cls, 1)) for cls in SIMULATED_TRACES)])
    print("\n" + table.drop(columns="class").round(3).to_string(na_rep="-", max_colwidth=32))
    print(
        f"of {len(table)} traces {table['same'].sum()} have the verdict and the period of the whole at the last sample, "
        f"{table['same_closed'].sum()} once closed; {table['wrong'].sum()} ever wrong"
    )


def show_classes(seed: int, traces: int) -> None:
    """Shares of the traces of every class, by what somebody sees in them."""
    table = pd.DataFrame(followed(read(simulated(cls, seed + number))) for cls in CLASSES for number in range(traces))
    kinds = dict.fromkeys(VISIBLE, "visible") | dict.fromkeys(HIDDEN, "training, hardly visible")
    groups = table.groupby(table["class"].map(kinds).fillna("no training"), sort=False)
    shares = groups[["same", "same_closed", "right", "wrong"]].mean()
    print("\n" + shares.assign(n=groups.size(), first_epochs=groups["first"].median()).round(2).to_string(na_rep="-"))


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--traces", type=int, default=0, help="per class")
    parser.add_argument("--minutes", type=float, default=30)
    chosen = parser.parse_args()
    if chosen.minutes:
        show_cost(chosen.seed, chosen.minutes)
    show_agreement()
    if chosen.traces:
        show_classes(chosen.seed, chosen.traces)
