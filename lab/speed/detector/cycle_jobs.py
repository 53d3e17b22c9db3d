"""Simulated jobs whose cycles are known: steps, checkpoints, evaluations and epochs, one within another.

Families of jobs, mixed at fixed shares:

- epochs: each ends with a validation, with or without a gap (the loader restarts) and a save of its own;
- evaluations: one to four further evaluations within each epoch, shorter than its validation, or without the gap after it;
- checkpoints: a validation in each epoch and a save every k epochs, k = 1 .. 5;
- saves: a language model that saves every N steps and does nothing else;
- evaluated: a language model that evaluates every N steps and saves every m N;
- steps: a strictly even loop without anything longer;
- nothing: no cycle that 10 Hz could show.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.simulator import other_classes, other_jobs, training_classes
from lab.simulator.draws import draw_training, log_uniform
from lab.simulator.timeline import Phase, SimulatedTimeline, join, pause
from lab.simulator.training import SimulatedTraining, evaluate, train

Indices = NDArray[np.int64]

LEAST = 4  # samples of each validation, gap and save, so that a plot would show it

WORK = (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.VALIDATE, Phase.SAVE, Phase.SERVE)


@dataclass(frozen=True)
class Drawn:
    """What runs, and the names of its cycles: (names, index of the segment at which each begins, whether they show at all)."""

    timeline: SimulatedTimeline
    cycles: list[tuple[tuple[str, ...], Indices, bool]]
    plan: SimulatedTraining | None = None


def onsets(timeline: SimulatedTimeline, phase: Phase) -> Indices:
    """Where the process turns to a phase from other work: each step's update, each first batch of a validation, each save."""
    work = np.flatnonzero(np.isin(timeline.phases, WORK))
    here = timeline.phases[work] == phase
    return np.asarray(work[here & ~np.concatenate([[False], here[:-1]])])


def steps_of(
    timeline: SimulatedTimeline, phase: Phase = Phase.UPDATE, plan: SimulatedTraining | None = None
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


def stalls(rng: np.random.Generator, plan: SimulatedTraining, epoch_s: float) -> SimulatedTraining:
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


def even_steps(rng: np.random.Generator, seconds: float, length_s: float) -> tuple[SimulatedTimeline, int]:
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
    batch = SimulatedTraining(epochs=cycles, steps=4, step_s=step, batch_s=step * rng.uniform(0.3, 0.8), jitter=0.02)
    evaluation_s = event_s(rng, interval_s, length_s, 0.05, 0.2) if every > 1 else 0.0
    save_s = event_s(rng, interval_s, length_s, 0.02, 0.15)
    parts = []
    for number, first in enumerate(range(0, len(whole.phases) - segments + 1, segments), 1):
        chunk = slice(first, first + segments)
        parts += [SimulatedTimeline.of(whole.phases[chunk], whole.seconds[chunk]), evaluate(batch, evaluation_s, rng)]
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
        return Drawn(getattr(other_classes, names[which])(rng).processes[0].timeline, [])
    timeline = training_classes.no_gap(rng).processes[0].timeline
    return Drawn(timeline, [*steps_of(timeline), (("epoch",), timeline.starts, False)])


Family = Callable[[np.random.Generator, float], Drawn]
"""Draws a job that is read at an interval [s]."""

#: How many of 40 jobs.
SHARES: dict[Family, int] = {
    epochs: 12,
    evaluations: 6,
    checkpoints: 7,
    saves: 4,
    evaluated: 5,
    steps: 3,
    nothing: 3,
}
