"""One answer for the GPUs of one job: simulated jobs of 2 to 64 GPUs, one of which may be odd, and the real jobs.

    EPOCHCAST_SHARED=../shared OMP_NUM_THREADS=1 python -m lab.speed.detector.jobs [--seed 32000] [--jobs 6] [--gpus N]...

A simulated job is one timeline read on GPUs of one device kind, each with noise of its own and slightly other levels. Kinds:

- even: no GPU is odd;
- contradicts: one GPU blinks evenly with another period next to a faint job (`blink`), or runs another job (`other`);
- lags: one GPU does the same 5 to 20 % of a period later (`shifted`), or begins each epoch later and ends it in time (`late`);
- idles: one GPU does nothing all along, with a process (`process`) or without (`parked`).

`right`: the job's period is within 5 % of the truth; `wrong, sure`: it is not, at confidence 0.6 or more; `silent`: no period;
`odd named`: the odd GPU is among those that the answer names; `others named`: a GPU is named that is not odd; `boundary F1`:
mean over the GPUs that run the job and are not `late`, of their own epochs' starts within 5 % of a period. Variants alternate;
of 64 GPUs there are a third as many jobs.

Of real jobs the truth is in the label files; of `regimes` no single period is true. `GPUs alone` counts the GPUs of which the
detection of one trace is right.
"""

from collections import defaultdict
from dataclasses import dataclass, replace
from multiprocessing import Pool
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.analyzer.traces.labels import read_label_file
from epochcast.detector import detect, detect_job
from epochcast.detector.confidence import ANSWERS
from lab.evaluate.detection import TOLERANCE, boundary_f1
from lab.simulator import other_jobs
from lab.simulator.devices import DEVICES
from lab.simulator.draws import draw_training, log_uniform, uncropped
from lab.simulator.scenario import RecordingFaults, draw_noise, record
from lab.simulator.telemetry import measure
from lab.simulator.timeline import TICK_S, Phase, SimulatedTimeline, join, pause
from lab.simulator.training import SimulatedTraining, train
from lab.simulator.workload import SimulatedWorkload, draw
from lab.speed.detector.traces import REAL, LabelledTrace, recorded
from lab.speed.page import options

GPUS = (2, 3, 4, 8, 16, 64)
KINDS = {
    "even": ("", ""),
    "contradicts": (" blink", " other"),
    "lags": (" shifted", " late"),
    "idles": (" process", " parked"),
}
LARGE = 64  # GPUs: a third of the jobs
FAINT = 0.02  # contrast of a validation next to a blink

Array = NDArray[np.float64]
Reading = tuple[Array, dict[str, Array]]


@dataclass(frozen=True)
class SimulatedJob:
    """Traces of one job's GPUs.

    Attributes:
        traces: (time, metrics) of each GPU.
        starts: true starts of each GPU's epochs [unix s], empty where it does not run the job.
        period_s: of the job.
        odd: index of the odd GPU, None without one.
    """

    traces: list[Reading]
    starts: list[Array]
    period_s: float
    odd: int | None


def plan_of(rng: np.random.Generator, epoch_s: float, seconds: float) -> SimulatedTraining:
    """A training with a validation at each epoch's end, and a gap in every second one."""
    return draw_training(
        rng,
        epochs=max(8, round(seconds / epoch_s)),
        epoch_s=epoch_s,
        validation=max(0.4 / epoch_s, rng.uniform(0.06, 0.22)),
        gap_s=min(rng.uniform(0.3, 1.5), 0.08 * epoch_s) if rng.random() < 0.5 else 0.0,
    )


def blink(rng: np.random.Generator, period_s: float, seconds: float) -> SimulatedTimeline:
    """Work and no work in turn, as evenly as a clock."""
    count, share = int(seconds / period_s) + 1, rng.uniform(0.3, 0.7)
    spans = np.outer(period_s * rng.lognormal(0, 0.003, count), (1 - share, share))
    return SimulatedTimeline.of(np.tile((Phase.WAIT, Phase.SERVE), count), spans.ravel())


def late(timeline: SimulatedTimeline, wait_s: float) -> SimulatedTimeline:
    """Each epoch begins later and does its work in less time, so that it ends as before."""
    seconds = timeline.seconds.copy()
    for start, end in zip(timeline.starts, timeline.ends, strict=True):
        length_s = seconds[start:end].sum()
        seconds[start:end] *= 1 - min(wait_s / length_s, 0.5)
    lost = np.add.reduceat(timeline.seconds - seconds, np.column_stack([timeline.starts, timeline.ends]).ravel())[::2]
    phases = np.insert(timeline.phases, timeline.starts, Phase.WAIT)
    moved = np.arange(1, timeline.starts.size + 1)
    return SimulatedTimeline(
        phases,
        np.insert(seconds, timeline.starts, lost),
        np.ones(phases.size),
        timeline.starts + moved,
        timeline.ends + moved,
    )


def elsewhere(rng: np.random.Generator, work: SimulatedWorkload) -> SimulatedWorkload:
    """The same work on another GPU of the kind: each metric's level is a little higher or lower."""
    return replace(work, levels={name: level * rng.lognormal(0, 0.03) for name, level in work.levels.items()})


def simulated(kind: str, gpus: int, seed: int) -> SimulatedJob:
    """One job; the same arguments give the same."""
    rng = np.random.default_rng([26, list(KINDS).index(kind), gpus, seed])
    seconds = log_uniform(rng, 240, 300 if gpus >= LARGE else 600)
    epoch_s = log_uniform(rng, 6, seconds / 8)
    plan = plan_of(rng, epoch_s, seconds)
    timeline = uncropped(rng, train(plan, rng))
    starts_s = timeline.marks()[0]
    period_s = float(np.median(np.diff(starts_s)))
    device, noise, contrast = DEVICES[rng.integers(len(DEVICES))], draw_noise(rng), log_uniform(rng, 0.14, 0.6)
    work = draw(device, plan.step, contrast, rng)
    odd = None if kind == "even" else int(rng.integers(gpus))
    other_s = period_s * rng.choice([rng.uniform(0.35, 0.45), rng.uniform(1.3, 1.7), rng.uniform(2.3, 2.7)])
    second = seed % 2 == 1
    running: list[tuple[SimulatedTimeline, SimulatedWorkload]] = [(timeline, work)]
    if kind == "contradicts" and second:
        other = plan_of(rng, other_s, seconds)
        running = [(uncropped(rng, train(other, rng)), draw(device, other.step, contrast, rng))]
    elif kind == "contradicts":
        faint = draw(device, plan.step, FAINT, rng)
        faint = replace(faint, levels={name: 0.4 * level for name, level in faint.levels.items()})
        running = [(timeline, faint), (blink(rng, other_s, timeline.length_s), work)]
    elif kind == "lags":
        wait_s = rng.uniform(0.05, 0.2) * period_s
        running = [(late(timeline, wait_s) if second else join(pause(Phase.PARKED, wait_s), timeline), work)]
    elif kind == "idles":
        nothing = pause(Phase.PARKED, timeline.length_s) if second else other_jobs.idle(timeline.length_s, rng)
        running = [(nothing, work)]

    begin = 1_700_000_000.0 + float(rng.integers(10**7))
    ticks = int(timeline.length_s / TICK_S)
    time = begin + TICK_S * np.arange(1, ticks + 1, dtype=np.float64)
    traces, starts = [], []
    for gpu in range(gpus):
        jobs = running if gpu == odd else [(timeline, work)]
        metrics = measure([(one, elsewhere(rng, its)) for one, its in jobs], device, noise, ticks, rng)
        traces.append(record(time, metrics, RecordingFaults(), rng))
        runs = gpu != odd or (kind == "lags" and not second)
        starts.append(begin + jobs[0][0].marks()[0] if runs else np.empty(0))
    return SimulatedJob(traces, starts, period_s, odd)


def off(period_s: float | None, true_s: float) -> float:
    """Relative error of a period, NaN without one."""
    return np.nan if period_s is None else abs(period_s / true_s - 1)


def scored(kind: str, gpus: int, seed: int) -> dict[str, Any]:
    """One row of the tables."""
    job = simulated(kind, gpus, seed)
    found = detect_job(job.traces)
    assert found.job is not None
    error = off(found.job.period_s, job.period_s)
    f1 = [
        boundary_f1(starts, [epoch.start for epoch in one.epochs], TOLERANCE * job.period_s)
        for starts, one in zip(job.starts, found.gpus, strict=True)
        if starts.size
    ]
    return {
        "kind": kind + KINDS[kind][seed % 2],
        "gpus": gpus,
        "right": error < TOLERANCE,
        "wrong, sure": error >= TOLERANCE and found.job.confidence >= ANSWERS,
        "silent": np.isnan(error),
        "odd named": float(job.odd in found.odd) if job.odd is not None else np.nan,
        "others named": any(gpu != job.odd for gpu in found.odd),
        "boundary F1": np.mean(f1) if f1 else np.nan,
    }


def show_real() -> None:
    """One line for each real job, then its odd GPUs."""
    print("\nreal jobs")
    for folder in (REAL, REAL / "more", REAL / "regimes"):
        jobs: dict[str, list[LabelledTrace]] = defaultdict(list)
        for each in recorded(folder):
            jobs[read_label_file(folder / f"{each.name}.json").get("job", "")].append(each)
        jobs.pop("", None)
        for name, gpus in jobs.items():
            if len(gpus) < 2:
                continue
            found = detect_job([(each.time, each.metrics) for each in gpus])
            assert found.job is not None
            alone = [detect(each.time, each.metrics) for each in gpus]
            words = [f"{name}, {len(gpus)} GPUs: {found.job.verdict}"]
            words += [] if found.job.period_s is None else [f"{found.job.period_s:.1f} s at {found.job.confidence:.2f}"]
            stretches = ", ".join(f"{part.period_s:.1f} s" for part in found.job.stretches)
            words += [f"stretches {stretches}"] if stretches else []
            if folder.name == "regimes":
                words += ["no single period is true"]
            else:
                true_s = float(np.median([each.period_s for each in gpus]))
                right = sum(off(one.period_s, true_s) < TOLERANCE for one in alone)
                words += [f"truth {true_s:.1f} s", f"right: {off(found.job.period_s, true_s) < TOLERANCE}"]
                words += [f"GPUs alone: {right} right"]
            print("; ".join([*words, f"{sum(one.period_s is not None for one in alone)} answered alone"]), flush=True)
            for gpu, sentence in found.odd.items():
                print(f"    GPU {gpu}: {sentence}")


if __name__ == "__main__":
    parser = options(__doc__, page=False)
    parser.add_argument("--seed", type=int, default=32000, help="of the first job of a kind and number of GPUs")
    parser.add_argument("--jobs", type=int, default=6, help="per kind and number of GPUs; 0: the real ones only")
    parser.add_argument("--gpus", type=int, action="append", help="only these numbers of GPUs")
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args()
    drawn = [
        (kind, gpus, chosen.seed + i)
        for gpus in chosen.gpus or GPUS
        for kind in KINDS
        for i in range(-(-chosen.jobs // 3) if gpus >= LARGE else chosen.jobs)
    ]
    with Pool(chosen.processes) as pool:
        rows = pd.DataFrame(pool.starmap(scored, drawn, chunksize=1))
    for by in ("kind", "gpus", ["kind", "gpus"]) if len(rows) else ():
        groups = rows.groupby(by, sort=False)
        table = groups.mean(numeric_only=True).drop(columns="gpus", errors="ignore")
        table.insert(0, "jobs", groups.size())
        print("\n" + table.astype(float).round(2).to_string(na_rep="-"))
    show_real()
