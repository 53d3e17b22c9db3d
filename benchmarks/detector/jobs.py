"""One answer for the GPUs of one job: simulated jobs of 2 to 64 GPUs, one of which may be odd, and the real jobs.

Run: EPOCHCAST_SHARED=../shared OMP_NUM_THREADS=1 python -m benchmarks.detector.jobs [--seed 26000] [--jobs 6] [--gpus N]...

A simulated job is one timeline read on GPUs of one device kind, each with noise of its own and slightly other levels. Kinds:

- even: no GPU is odd;
- contradicts: one GPU blinks evenly with another period beside a faint job (`blink`), or runs another job (`other`);
- lags: one GPU does the same 5 to 20 % of a period later (`shifted`), or begins each epoch later and ends it in time (`late`);
- idles: one GPU does nothing all along, with a process (`process`) or without (`parked`).

`right`: the job's period is within 5 % of the truth; `wrong, sure`: it is not, at confidence 0.6 or more; `silent`: no period;
`odd named`: the odd GPU is among those that the answer names; `others named`: a GPU is named that is not odd; `boundary F1`:
mean over the GPUs that run the job and are not `late`, of their own epochs' starts within 5 % of a period. Variants alternate;
of 64 GPUs there are a third as many jobs.

Of real jobs the truth is in the label files; of `regimes` no single period is true. `GPUs alone` counts the GPUs of which the
detection of one trace is right. Until `detect_job` exists, the first GPU's own detection counts as the job's answer.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from multiprocessing import Pool
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast import detector
from epochcast.analyzer.traces.labels import labelled_traces, read_label_file
from epochcast.detector import detect
from epochcast.detector.confidence import ANSWERS
from epochcast.detector.evaluation import TOLERANCE, boundary_f1
from epochcast.detector.simulator import other_jobs
from epochcast.detector.simulator.devices import DEVICES
from epochcast.detector.simulator.draws import draw_training, log_uniform, uncropped
from epochcast.detector.simulator.scenario import Recording, draw_noise, record
from epochcast.detector.simulator.telemetry import measure
from epochcast.detector.simulator.timeline import TICK_S, Phase, Timeline, join, pause
from epochcast.detector.simulator.training import Training, train
from epochcast.detector.simulator.workload import Workload, draw

from .comparison import SHARED

GPUS = (2, 3, 4, 8, 16, 64)
KINDS = {
    "even": ("", ""),
    "contradicts": (" blink", " other"),
    "lags": (" shifted", " late"),
    "idles": (" process", " parked"),
}
LARGE = 64  # GPUs: a third of the jobs
FAINT = 0.02  # contrast of a validation beside a blink

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


def plan_of(rng: np.random.Generator, epoch_s: float, seconds: float) -> Training:
    """A training with a validation at each epoch's end, and a gap in every second one."""
    return draw_training(
        rng,
        epochs=max(8, round(seconds / epoch_s)),
        epoch_s=epoch_s,
        validation=max(0.4 / epoch_s, rng.uniform(0.06, 0.22)),
        gap_s=min(rng.uniform(0.3, 1.5), 0.08 * epoch_s) if rng.random() < 0.5 else 0.0,
    )


def blink(rng: np.random.Generator, period_s: float, seconds: float) -> Timeline:
    """Work and no work in turn, as evenly as a clock."""
    count, share = int(seconds / period_s) + 1, rng.uniform(0.3, 0.7)
    spans = np.outer(period_s * rng.lognormal(0, 0.003, count), (1 - share, share))
    return Timeline.of(np.tile((Phase.WAIT, Phase.SERVE), count), spans.ravel())


def late(timeline: Timeline, wait_s: float) -> Timeline:
    """Each epoch begins later and does its work in less time, so that it ends as before."""
    seconds = timeline.seconds.copy()
    for start, end in zip(timeline.starts, timeline.ends, strict=True):
        length_s = seconds[start:end].sum()
        seconds[start:end] *= 1 - min(wait_s / length_s, 0.5)
    lost = np.add.reduceat(timeline.seconds - seconds, np.column_stack([timeline.starts, timeline.ends]).ravel())[::2]
    phases = np.insert(timeline.phases, timeline.starts, Phase.WAIT)
    moved = np.arange(1, timeline.starts.size + 1)
    return Timeline(
        phases,
        np.insert(seconds, timeline.starts, lost),
        np.ones(phases.size),
        timeline.starts + moved,
        timeline.ends + moved,
    )


def elsewhere(rng: np.random.Generator, work: Workload) -> Workload:
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
    running: list[tuple[Timeline, Workload]] = [(timeline, work)]
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
    time = begin + TICK_S * np.arange(1, ticks + 1)
    traces, starts = [], []
    for gpu in range(gpus):
        jobs = running if gpu == odd else [(timeline, work)]
        metrics = measure([(one, elsewhere(rng, its)) for one, its in jobs], device, noise, ticks, rng)
        traces.append(record(time, metrics, Recording(), rng))
        runs = gpu != odd or (kind == "lags" and not second)
        starts.append(begin + jobs[0][0].marks()[0] if runs else np.empty(0))
    return SimulatedJob(traces, starts, period_s, odd)


def answer(traces: Sequence[Reading]) -> Any:
    """What the detector makes of a job: `job`, `gpus` and `odd`; the first GPU's detection before `detect_job` exists."""
    detect_job = getattr(detector, "detect_job", None)
    if detect_job is not None:
        return detect_job(traces)
    first = detect(*traces[0])
    return SimpleNamespace(job=first, gpus=(first,), odd={})


def off(period_s: float | None, true_s: float) -> float:
    """Relative error of a period, NaN without one."""
    return np.nan if period_s is None else abs(period_s / true_s - 1)


def scored(kind: str, gpus: int, seed: int) -> dict[str, Any]:
    """One row of the tables."""
    job = simulated(kind, gpus, seed)
    answered = answer(job.traces)
    error = off(answered.job.period_s, job.period_s)
    f1 = [
        boundary_f1(starts, [epoch.start for epoch in one.epochs], TOLERANCE * job.period_s)
        for starts, one in zip(job.starts, answered.gpus, strict=False)
        if starts.size
    ]
    return {
        "kind": kind + KINDS[kind][seed % 2],
        "gpus": gpus,
        "seed": seed,
        "true_s": job.period_s,
        "answered_s": answered.job.period_s,
        "confidence": answered.job.confidence,
        "right": error < TOLERANCE,
        "wrong": not error < TOLERANCE and not np.isnan(error) and answered.job.confidence >= ANSWERS,
        "silent": np.isnan(error),
        "odd": job.odd in answered.odd if job.odd is not None else np.nan,
        "others": any(gpu != job.odd for gpu in answered.odd),
        "f1": np.mean(f1) if f1 else np.nan,
        "sentences": dict(answered.odd),
        "odd_gpu": job.odd,
    }


def real(folder: Path) -> dict[str, list[tuple[Reading, float]]]:
    """Jobs of several GPUs: each one's trace and its true period [s]."""
    jobs = defaultdict(list)
    if not folder.is_dir():
        return {}
    for name, trace, labels in labelled_traces(folder):
        job = read_label_file(folder / f"{name}.json").get("job")
        if job is not None:
            jobs[job].append(((trace.time, trace.metrics()), float(np.median(np.diff(labels.epoch_starts)))))
    return {job: traces for job, traces in jobs.items() if len(traces) > 1}


def print_real() -> None:
    """One line for each real job."""
    print("\nreal jobs")
    for folder in (SHARED / "data" / "real_traces" / part for part in ("", "more", "regimes")):
        for name, job in real(folder).items():
            answered = answer([reading for reading, _ in job])
            one = answered.job
            true_s = float(np.median([period for _, period in job]))
            alone = [detect(*reading) for reading, _ in job]
            words = [f"{name}, {len(job)} GPUs: {one.verdict}"]
            words += [] if one.period_s is None else [f"{one.period_s:.1f} s at {one.confidence:.2f}"]
            words += [f"stretches {', '.join(f'{part.period_s:.1f} s' for part in one.stretches)}"] if one.stretches else []
            if folder.name == "regimes":
                words += ["no single period is true"]
            else:
                right = sum(off(each.period_s, true_s) < TOLERANCE for each in alone)
                words += [
                    f"truth {true_s:.1f} s",
                    f"right: {off(one.period_s, true_s) < TOLERANCE}",
                    f"GPUs alone: {right} right",
                ]
            print("; ".join([*words, f"{sum(each.period_s is not None for each in alone)} answered alone"]), flush=True)
            for gpu, sentence in answered.odd.items():
                print(f"    GPU {gpu}: {sentence}")


def main() -> None:
    """Print the tables of simulated jobs, then the real ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=26000, help="of the first job of a kind and number of GPUs")
    parser.add_argument("--jobs", type=int, default=6, help="per kind and number of GPUs; 0: the real ones only")
    parser.add_argument("--gpus", type=int, action="append", help="only these numbers of GPUs")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="one line for each job that is not all right")
    options = parser.parse_args()
    drawn = [
        (kind, gpus, options.seed + i)
        for gpus in options.gpus or GPUS
        for kind in KINDS
        for i in range(-(-options.jobs // 3) if gpus >= LARGE else options.jobs)
    ]
    with Pool(options.processes) as pool:
        rows = pd.DataFrame(pool.starmap(scored, drawn, chunksize=1))
    columns = {
        "jobs": ("right", "size"),
        "right": ("right", "mean"),
        "wrong, sure": ("wrong", "mean"),
        "silent": ("silent", "mean"),
        "odd named": ("odd", "mean"),
        "others named": ("others", "mean"),
        "boundary F1": ("f1", "mean"),
    }
    for by in ("kind", "gpus", ["kind", "gpus"]) if len(rows) else ():
        table = rows.astype({"odd": float}).groupby(by, sort=False).agg(**columns)
        print("\n" + table.astype(float).round(2).to_string(na_rep="-"))
    for row in rows.to_dict("records") if options.verbose else ():
        if not row["right"] or row["odd"] == 0 or row["others"]:
            print({key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()})
    print_real()


if __name__ == "__main__":
    main()
