"""Which cycles of a job are named, and how: steps, checkpoints, evaluations and epochs of simulated jobs, and idle shares.

Run: OMP_NUM_THREADS=1 python -m benchmarks.detector.cycles [--seed 25000] [--jobs 200] [--processes 1] [--dump DIR]

Families of jobs, mixed at fixed shares; most are read at 10 Hz with all metrics, every seventh or so as NVML's rows of a
second:

- epochs: each ends with a validation, with or without a gap (the loader restarts) and a save of its own;
- evaluations: one to four further evaluations within each epoch, shorter than its validation, or without the gap after it;
- checkpoints: a validation in each epoch and a save every k epochs, k = 1 .. 5;
- saves: a language model that saves every N steps and does nothing else;
- evaluated: a language model that evaluates every N steps and saves every m N;
- steps: a strictly even loop without anything longer;
- nothing: no cycle that 10 Hz could show.

What telemetry cannot tell apart, and the names that count as right here:

- The base cycle that a validation ends is an `epoch`, also where the program counts it as N steps between two evaluations.
- A cycle that nothing but a save ends, or that differs from the shorter ones within it by a save alone, is a `checkpoint`,
  also where its program counts epochs. One that ends with a validation and a save each time is an `epoch`; `checkpoint` is
  true too.
- A shorter cycle that a validation ends is an `evaluation` if the longer one around it ends with a longer validation, or with
  a gap. If the longer one differs by its save alone, `epoch` (a save every k epochs) and `evaluation` (evaluated every N
  steps, saved every m N) are the same telemetry and both right; only `epoch` is if a gap follows each validation.
- Steps may be named in groups (workers of a loader, accumulation): a whole multiple of a step up to 10, or as many as
  the loader has workers; so may micro-batches.

An answered cycle matches a true one if their periods are within 5 %. The period of a true cycle is the median of its lengths;
lengths alternate where every second cycle holds a save, a longer validation or a wait for the loader, so anything between their
quartiles will do, and of steps and evaluations also their mean.
A true cycle is visible with 3 repetitions or more, and a step with 8 samples or more: these have to be named, others may be. A
named cycle (a kind other than `unknown`) that matches no true one of its kind is misnamed. Wanted: at least 90 % of the visible
ones named rightly, at most 2 % of the named ones misnamed, idle shares within 3 points.

The true idle share, over all whole cycles, is stated in two ways. *Device*: the time in which no kernel runs, by the share of
each phase in which the simulated device computes; that is what is measured. *Process*: the time that the process waits, saves
or sets up; a device that computes in 0.9 of a step idles for a tenth of it, and a process does not.
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from multiprocessing import Pool
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from epochcast.detector import Detection, detect
from epochcast.detector.evaluation import TOLERANCE
from epochcast.detector.simulator import SimulatedTrace, other_classes, other_jobs, training_classes
from epochcast.detector.simulator.draws import draw_training, log_uniform, uncropped
from epochcast.detector.simulator.scenario import Job, Recording, Scenario, observe
from epochcast.detector.simulator.timeline import Phase, Timeline, join, pause
from epochcast.detector.simulator.training import Training, evaluate, train

from .simulated_traces import write

Indices = NDArray[np.int64]

NVML_SHARE = 0.15  # of the jobs are read as NVML's rows of a second
LEAST = 4  # samples of each validation, gap and save, so that a plot would show it
REPETITIONS, STEP_SAMPLES, GROUP = 3, 8, 10

IDLE = (Phase.WAIT, Phase.SAVE, Phase.SETUP)
WORK = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.VALIDATE, Phase.SAVE, Phase.SERVE)


@dataclass(frozen=True)
class Truth:
    """One true cycle.

    Attributes:
        kinds: names that are right; the first one is what the program would call it.
        period_s: median length [s].
        low_s, high_s: bounds of the lengths that count as this cycle, before the tolerance [s].
        repetitions: how many there are.
        visible: whether it has to be named.
        idle: share of its time in which the device idles, and in which the process waits, saves or sets up.
    """

    kinds: tuple[str, ...]
    period_s: float
    low_s: float
    high_s: float
    repetitions: int
    visible: bool
    idle: dict[str, float]

    def matches(self, period_s: float) -> bool:
        """Whether a period is this cycle's."""
        return self.low_s * (1 - TOLERANCE) < period_s < self.high_s * (1 + TOLERANCE)

    def grouped(self, period_s: float) -> bool:
        """Whether a period is that of some of these steps; their mean and their median differ where a loader hiccups."""
        return self.kinds == ("step",) and any(
            abs(period_s / (count * length) - 1) < TOLERANCE
            for count in range(1, GROUP + 1)
            for length in (self.low_s, self.high_s, self.period_s)
        )


@dataclass(frozen=True)
class Drawn:
    """What runs, and the names of its cycles: (names, index of the segment at which each begins, whether they show at all)."""

    timeline: Timeline
    cycles: list[tuple[tuple[str, ...], Indices, bool]]
    plan: Training | None = None


def onsets(timeline: Timeline, phase: Phase) -> Indices:
    """Where the process turns to a phase from other work: each step's update, each first batch of a validation, each save."""
    work = np.flatnonzero(np.isin(timeline.phases, WORK))
    here = timeline.phases[work] == phase
    return work[here & ~np.concatenate([[False], here[:-1]])]


def steps_of(
    timeline: Timeline, phase: Phase = Phase.UPDATE, plan: Training | None = None
) -> list[tuple[tuple[str, ...], Indices, bool]]:
    """Its steps, the micro-batches that some are made of, and the groups of which each ends with a wait for the loader."""
    steps = np.flatnonzero(timeline.phases == phase)
    micro = np.flatnonzero(timeline.phases == Phase.FORWARD)
    found: list[tuple[tuple[str, ...], Indices, bool]] = [(("step",), steps, True)]
    found += [(("step",), micro, False)] if micro.size > 1.5 * steps.size > 0 else []
    return found + ([(("step",), steps[:: plan.workers], False)] if plan is not None and plan.hiccup else [])


def event_s(rng: np.random.Generator, interval_s: float, cycle_s: float, low: float, high: float) -> float:
    """Length of a validation or save: a share of a cycle, but some samples at least [s]."""
    return max(log_uniform(rng, low, high) * cycle_s, LEAST * interval_s)


def gap_s(rng: np.random.Generator, interval_s: float, cycle_s: float) -> float:
    """Length of a gap [s], 0 for every second job."""
    return max(min(rng.uniform(0.4, 1.5), 0.08 * cycle_s), 1.2 * LEAST * interval_s) if rng.random() < 0.5 else 0.0


def step_s(rng: np.random.Generator, interval_s: float, cycle_s: float) -> float:
    """Length of a step [s]: for every second job at 10 Hz one that can be seen."""
    if interval_s < 1 and rng.random() < 0.5:
        return log_uniform(rng, 0.8, min(4.0, max(0.9, cycle_s / 10)))
    return log_uniform(rng, 0.05, 0.4)


def count(rng: np.random.Generator, interval_s: float, cycle_s: float, least: int = 5, most: int = 40) -> int:
    """How many cycles: half an hour at 10 Hz at most, more in rows of a second."""
    longest_s = 1500 if interval_s < 1 else 6000
    return max(least, min(round(log_uniform(rng, least, most)), int(longest_s / cycle_s)))


def cycle_s(rng: np.random.Generator, interval_s: float, low: float = 8, high: float = 100) -> float:
    """Length of the shortest cycle that a validation or save ends [s]."""
    return log_uniform(rng, low, high) if interval_s < 1 else log_uniform(rng, 5 * low, 2 * high)


def stalls(rng: np.random.Generator, plan: Training, epoch_s: float) -> Training:
    """Every third job stalls now and then."""
    if rng.random() > 0.3:
        return plan
    return replace(plan, stall_share=rng.uniform(0.3, 1.5) / plan.steps, stall_s=rng.uniform(0.01, 0.03) * epoch_s)


def epochs(rng: np.random.Generator, interval_s: float, every: int | None = None, epochs: int | None = None) -> Drawn:
    """Epochs with a validation, a gap in every second job, and a save every so many epochs (by default in each or in none)."""
    length_s = cycle_s(rng, interval_s)
    gap = gap_s(rng, interval_s, length_s)
    every = int(rng.random() < 0.3) if every is None else every
    plan = draw_training(
        rng,
        epochs=epochs or count(rng, interval_s, length_s),
        epoch_s=length_s,
        validation=event_s(rng, interval_s, length_s, 0.05, 0.22) / length_s,
        gap_s=gap,
        gap_before=float(rng.choice([0.0, 0.3])) if interval_s < 1 else 0.0,
        step_s=step_s(rng, interval_s, length_s),
        checkpoint_every=every,
        # Saved every second epoch, the median length is midway between both kinds: the save must be short.
        checkpoint_s=event_s(rng, interval_s, length_s, 0.02, 0.07 if every == 2 else 0.2) if every else 0.0,
    )
    timeline = train(stalls(rng, plan, length_s), rng)
    kinds = {0: ("epoch",), 1: ("epoch", "checkpoint")}.get(every, ("epoch",) if gap else ("epoch", "evaluation"))
    saves = [(("checkpoint",), onsets(timeline, Phase.SAVE), True)] if every > 1 else []
    return Drawn(timeline, [*steps_of(timeline, plan=plan), (kinds, timeline.starts, True), *saves], plan)


def checkpoints(rng: np.random.Generator, interval_s: float) -> Drawn:
    """A save every one to five epochs."""
    every = int(rng.integers(1, 6))
    return epochs(rng, interval_s, every, round(every * rng.uniform(4, 8)) + 1)


def evaluations(rng: np.random.Generator, interval_s: float) -> Drawn:
    """Evaluations within epochs, shorter than the validation at their end, or the same and without the gap after it."""
    length_s = cycle_s(rng, interval_s, 20, 150)
    inner = int(rng.integers(1, 5))
    gap, alike = gap_s(rng, interval_s, length_s), rng.random() < 0.4
    if alike and not gap:
        gap = max(0.04 * length_s, 1.5 * LEAST * interval_s)
    evaluation_s = event_s(rng, interval_s, length_s, 0.02, 0.08)
    saves = bool(rng.random() < 0.5)
    plan = draw_training(
        rng,
        epochs=count(rng, interval_s, length_s, 4, 20),
        epoch_s=length_s,
        validation=evaluation_s / length_s * (1 if alike else rng.uniform(1.5, 2.5)),
        gap_s=gap,
        step_s=step_s(rng, interval_s, length_s / (inner + 1)),
        evaluations=inner,
        evaluation_s=evaluation_s,
        checkpoint_every=int(saves),
        checkpoint_s=event_s(rng, interval_s, length_s, 0.01, 0.05) if saves else 0.0,
    )
    timeline = train(stalls(rng, plan, length_s), rng)
    longest = ("epoch", "checkpoint") if saves else ("epoch",)
    validations = onsets(timeline, Phase.VALIDATE)
    return Drawn(
        timeline, [*steps_of(timeline, plan=plan), (("evaluation",), validations, True), (longest, timeline.starts, True)], plan
    )


def even_steps(rng: np.random.Generator, seconds: float, length_s: float) -> tuple[Timeline, int]:
    """A loop of steps of about a length [s], half of them of micro-batches, and the number of segments in each step."""
    if rng.random() < 0.5:
        return other_jobs.steps(seconds, rng, step_s=length_s), 5
    micro = int(rng.choice([n for n in (1, 2, 4, 8, 16) if n == 1 or length_s / n > 0.15]))
    return other_jobs.accumulated_steps(seconds, rng, micro_s=length_s / (micro + 0.45), accumulation=micro), 3 * micro + 2


def language_model(rng: np.random.Generator, interval_s: float, every: int) -> Drawn:
    """Steps with a save every N, or with an evaluation every N and a save every `every` of these."""
    length_s = cycle_s(rng, interval_s, 12, 80)
    cycles = count(rng, interval_s, length_s) if every == 1 else round(every * rng.uniform(4, 7)) + 1
    step = log_uniform(rng, 0.3, min(4.0, length_s / 10))
    whole, segments = even_steps(rng, cycles * length_s, step)
    segments *= max(4, round(len(whole.phases) / segments / cycles))
    batch = Training(epochs=cycles, steps=4, step_s=step, batch_s=step * rng.uniform(0.3, 0.8), jitter=0.02)
    evaluation_s = event_s(rng, interval_s, length_s, 0.05, 0.2) if every > 1 else 0.0
    save_s = event_s(rng, interval_s, length_s, 0.02, 0.15)
    parts = []
    for number, first in enumerate(range(0, len(whole.phases) - segments + 1, segments), 1):
        chunk = slice(first, first + segments)
        parts += [Timeline.of(whole.phases[chunk], whole.seconds[chunk]), evaluate(batch, evaluation_s, rng)]
        if number % every == 0:
            parts.append(pause(Phase.SAVE, save_s * rng.lognormal(0, 0.08)))
    timeline = join(*parts)
    cycles_of = [*steps_of(timeline), (("checkpoint",), onsets(timeline, Phase.SAVE), True)]
    if every > 1:
        cycles_of.append((("epoch", "evaluation"), onsets(timeline, Phase.VALIDATE), True))
    return Drawn(timeline, cycles_of, batch)


def saves(rng: np.random.Generator, interval_s: float) -> Drawn:
    """A language model that only saves."""
    return language_model(rng, interval_s, 1)


def evaluated(rng: np.random.Generator, interval_s: float) -> Drawn:
    """A language model that is evaluated two to five times as often as it is saved."""
    return language_model(rng, interval_s, int(rng.integers(2, 6)))


def steps(rng: np.random.Generator, interval_s: float) -> Drawn:
    """Nothing but steps or batches, most of which can be seen."""
    length_s = log_uniform(rng, 0.8, 4) if interval_s < 1 else log_uniform(rng, 8, 20)
    length_s *= 0.2 if rng.random() < 0.2 else 1.0
    seconds = log_uniform(rng, 150, 1500) * (1 if interval_s < 1 else 3)
    if rng.random() < 0.3:
        timeline = other_jobs.batches(seconds, rng, batch_s=length_s, jitter=rng.uniform(0, 0.03))
        return Drawn(timeline, steps_of(timeline, Phase.SERVE))
    timeline, _ = even_steps(rng, seconds, length_s)
    return Drawn(timeline, steps_of(timeline))


def nothing(rng: np.random.Generator, interval_s: float) -> Drawn:
    """No job, one without cycles, or epochs without validation whose gap 10 Hz does not show."""
    names = ("idle", "serving", "bursts", "random_walk", "notebook")
    which = int(rng.integers(len(names) + 2))
    if which < len(names):
        return Drawn(getattr(other_classes, names[which])(rng).jobs[0].timeline, [])
    timeline = training_classes.no_gap(rng).jobs[0].timeline
    return Drawn(timeline, [*steps_of(timeline), (("epoch",), timeline.starts, False)])


#: Family -> how many of 40 jobs.
SHARES: dict[Callable[[np.random.Generator, float], Drawn], int] = {
    epochs: 12,
    evaluations: 6,
    checkpoints: 7,
    saves: 4,
    evaluated: 5,
    steps: 3,
    nothing: 3,
}


def true_cycle(
    timeline: Timeline, kinds: tuple[str, ...], marks: Indices, shows: bool, interval_s: float, busy: NDArray[np.float64]
) -> Truth | None:
    """The cycle that begins at each mark; None if it has no length. `busy`: (phases,) share in which the device computes."""
    if marks.size < 2:
        return None
    edges = np.concatenate([[0.0], np.cumsum(timeline.seconds)])

    def spent(share: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.diff(np.concatenate([[0.0], np.cumsum(share * timeline.seconds)])[marks])

    def within(phases: tuple[Phase, ...]) -> NDArray[np.float64]:
        return spent(np.isin(timeline.phases, phases).astype(np.float64))

    lengths, device, process = np.diff(edges[marks]), spent(1 - busy[timeline.phases]), within(IDLE)
    step = kinds == ("step",)
    if step:  # from one step to the next, not across a validation, a save or an epoch's end
        whole = (within((Phase.VALIDATE, Phase.SAVE)) == 0) & (np.diff(np.searchsorted(timeline.starts, marks, "right")) == 0)
        lengths, device, process = lengths[whole], device[whole], process[whole]
    if not lengths.size:
        return None
    period = float(np.median(lengths))
    around = [period, *np.quantile(lengths, (0.25, 0.75)).tolist()]
    if step or kinds == ("evaluation",):  # a group of steps has their mean
        around.append(float(lengths.mean()))
    return Truth(
        kinds=kinds,
        period_s=period,
        low_s=min(around),
        high_s=max(around),
        repetitions=marks.size,
        visible=shows and marks.size >= REPETITIONS and (not step or period >= STEP_SAMPLES * interval_s),
        idle={"device": float(device.sum() / lengths.sum()), "process": float(process.sum() / lengths.sum())},
    )


def simulated(family: Callable[[np.random.Generator, float], Drawn], seed: int) -> tuple[SimulatedTrace, list[Truth]]:
    """One job of a family as it is read, and its true cycles; the same seed gives the same."""
    rng = np.random.default_rng([25, seed])
    interval_s = 1.0 if rng.random() < NVML_SHARE else 0.1
    drawn = family(rng, interval_s)
    scenario = Scenario(
        (Job(uncropped(rng, drawn.timeline), drawn.plan, log_uniform(rng, 0.14, 0.6)),), Recording(interval_s=interval_s)
    )
    trace = observe(family.__name__, seed, scenario, rng)
    busy = np.array(trace.settings["busy"][0])
    truths = (true_cycle(drawn.timeline, *cycle, interval_s, busy) for cycle in drawn.cycles)
    return trace, sorted((truth for truth in truths if truth), key=lambda truth: truth.period_s)


def matched(truths: list[Truth], kind: str, period_s: float) -> Truth | None:
    """The true cycle that an answered one is: of its kind if there is one, else the first; groups of steps come last."""
    exact = [truth for truth in truths if truth.matches(period_s)]
    exact = exact or [truth for truth in truths if truth.grouped(period_s)]
    return next((truth for truth in exact if kind in truth.kinds), exact[0] if exact else None)


def scored(family: Callable[[np.random.Generator, float], Drawn], dump: Path | None, seed: int) -> dict[str, Any]:
    """What one job's answer is worth: rows of its visible cycles, and of the answered ones."""
    trace, truths = simulated(family, seed)
    detection: Detection = detect(trace.time, trace.metrics)
    answered = []
    for cycle in getattr(detection, "cycles", ()):
        truth = matched(truths, cycle.kind, cycle.period_s)
        right = truth is not None and cycle.kind in truth.kinds
        errors = {}
        if truth is not None and cycle.idle_share is not None:
            errors = {name: 100 * abs(cycle.idle_share - share) for name, share in truth.idle.items()}
        answered.append(
            {
                "kind": cycle.kind,
                "period_s": cycle.period_s,
                "confidence": cycle.confidence,
                "right": right,
                "truth": truth,
                "true": "nothing" if truth is None else truth.kinds[0],
                **errors,
            }
        )
    visible = [truth for truth in truths if truth.visible]
    main = None
    if detection.period_s is not None and answered:
        nearest = min(answered, key=lambda one: abs(np.log(one["period_s"] / detection.period_s)))
        main = nearest["right"] if abs(nearest["period_s"] / detection.period_s - 1) < TOLERANCE else None
    job = {
        "family": family.__name__,
        "seed": seed,
        "rows": "NVML" if trace.time[1] - trace.time[0] > 0.5 else "10 Hz",
        "visible": [
            {
                "true": truth.kinds[0],
                "period_s": truth.period_s,
                # Micro-batches or a group of steps stand for the step.
                "right": any(
                    one["right"] and (one["truth"] is truth or one["true"] == truth.kinds[0] == "step") for one in answered
                ),
                "matched": any(one["truth"] is truth for one in answered),
            }
            for truth in visible
        ],
        "answered": [{key: value for key, value in one.items() if key != "truth"} for one in answered],
        "verdict": detection.verdict,
        "period_s": detection.period_s,
        "period_true": detection.period_s is not None and matched(truths, "", detection.period_s) is not None,
        "main": main,
    }
    if dump is not None:
        path = dump / f"{family.__name__}-{seed}.parquet"
        write(trace, path)
        content = {"cycles": [asdict(truth) for truth in truths], "answer": job}
        path.with_suffix(".cycles.json").write_text(json.dumps(content, indent=1, default=float))
    return job


def table(visible: pd.DataFrame, answered: pd.DataFrame, by: str, stated: str) -> str:
    """Shares by family, rows or kind; `stated` is the column of the answered cycles that is grouped like `by`."""
    lines = {}
    for name in sorted({*visible[by], *answered[stated]}):
        true, given = visible[visible[by] == name], answered[answered[stated] == name]
        named = given[given["kind"] != "unknown"]
        idle = given["device"].dropna()
        lines[name] = {
            "visible": len(true),
            "named rightly %": 100 * true["right"].mean(),
            "period matched %": 100 * true["matched"].mean(),
            "answered": len(given),
            "unknown": len(given) - len(named),
            "misnamed": (~named["right"].astype(bool)).sum(),
            "misnamed %": 100 * (~named["right"].astype(bool)).mean(),
            "idle error, median": idle.median(),
            "90 %": idle.quantile(0.9) if idle.size else np.nan,
        }
    return pd.DataFrame(lines).T.astype(float).round(1).to_string(na_rep="-")


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=25000, help="of the first job")
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--dump", type=Path, help="write traces, labels and true cycles to this folder")
    parser.add_argument("--family", action="append", choices=[family.__name__ for family in SHARES], help="only these")
    parser.add_argument("--verbose", action="store_true", help="one line for each job that is not all right")
    options = parser.parse_args()
    if options.dump:
        options.dump.mkdir(parents=True, exist_ok=True)
    # Spread over the seeds, so that fewer jobs are the same mixture.
    order = sorted((i / share, n) for n, share in enumerate(SHARES.values()) for i in range(share))
    families = [list(SHARES)[n] for _, n in order]
    drawn = [(families[i % len(families)], options.dump, options.seed + i) for i in range(options.jobs)]
    drawn = [one for one in drawn if not options.family or one[0].__name__ in options.family]
    with Pool(options.processes) as pool:
        jobs = pool.starmap(scored, drawn, chunksize=1)
    keys = ("family", "rows", "seed")
    visible = pd.DataFrame(
        [{**{key: job[key] for key in keys}, **one} for job in jobs for one in job["visible"]],
        columns=[*keys, "true", "period_s", "right", "matched"],
    )
    answered = pd.DataFrame(
        [{**{key: job[key] for key in keys}, **one} for job in jobs for one in job["answered"]],
        columns=[*keys, "kind", "period_s", "confidence", "right", "true", "device", "process"],
    )
    named = answered[answered["kind"] != "unknown"]
    wrong = named[~named["right"].astype(bool)]
    if options.verbose:
        for job in jobs:
            if not all(one["right"] for one in (*job["visible"], *job["answered"])):
                print(job["family"], job["seed"], job["rows"], job["verdict"], job["period_s"])
                print("   true:", *(f"{one['true']} {one['period_s']:.3g}" for one in job["visible"]), sep="  ")
                print("   answered:", *(f"{one['kind']} {one['period_s']:.3g}" for one in job["answered"]), sep="  ")
    for by, stated in (("family", "family"), ("rows", "rows"), ("true", "kind")):
        print(f"\nby {by if by != 'true' else 'kind (visible: the true one; answered: the stated one)'}")
        print(table(visible, answered, by, stated))
    print("\nstated for true, all that are not right:")
    for (kind, true), number in Counter(zip(wrong["kind"], wrong["true"], strict=True)).most_common():
        print(f"  {kind} for {true}: {number}")
    main_known = [job["main"] for job in jobs if job["main"] is not None]
    answers = [job for job in jobs if job["period_s"] is not None]
    print(f"\n{len(jobs)} jobs, {len(visible)} visible cycles, {len(answered)} answered")
    print(f"named rightly: {percent(visible['right'])} of the visible ones (wanted: 90 %)")
    print(f"misnamed: {percent(~named['right'].astype(bool))} of {len(named)} named ones (wanted: 2 % at most)")
    for name in ("device", "process"):
        errors = answered[name].dropna()
        if errors.size:
            high = errors.quantile(0.9)
            print(f"idle share of the {name}, error: median {errors.median():.1f}, 90 % {high:.1f} points, n={errors.size}")
    print(f"kind of the main cycle right: {percent(pd.Series(main_known, dtype=bool))} of {len(main_known)}")
    print(f"main period that of a true cycle: {percent(pd.Series([job['period_true'] for job in answers]))} of {len(answers)}")


def percent(flags: "pd.Series[Any]") -> str:
    """A share of a column of flags."""
    return f"{100 * flags.astype(float).mean():.1f} %" if flags.size else "-"


if __name__ == "__main__":
    main()
