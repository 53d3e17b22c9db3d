"""A training job as a timeline: epochs of steps, evaluations, saves and gaps. Defaults and scatter are by choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from lab.simulator.timeline import Phase, SimulatedTimeline, join, pause

Array = NDArray[np.float64]

_STEP = (Phase.WAIT, Phase.COPY, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE)
_BATCH = (Phase.WAIT, Phase.COPY, Phase.VALIDATE)


@dataclass(frozen=True)
class SimulatedTraining:
    """What one training job does.

    Attributes:
        epochs: how many.
        steps: per epoch.
        step_s: nominal length of a step [s].
        step: shares of a step spent waiting for input, copying, forward, backward and updating; their sum is 1.
        validation_s: evaluation at each epoch's end [s].
        validation_every: epochs between these.
        batch_s: nominal length of an evaluation's batch [s].
        evaluations: further ones within each epoch, evenly spaced.
        evaluation_s: length of each of these [s].
        gap_s: nothing on the device between two epochs [s], of which `gap_before` (share) comes before the validation.
        checkpoint_every: epochs between checkpoints, 0 for none.
        checkpoint_s: length of one [s].
        compile_s: added to the first step [s].
        warmup: how much longer the first epoch's steps take (ratio).
        jitter: standard deviation of the log of one step's length.
        growth: by how much the log of a step's length grows over each epoch, as it does over data sorted by length.
        wander: standard deviation of the slow change of speed, over `wander_steps` steps (log).
        workers, hiccup: of every `workers` steps the last waits `hiccup` steps longer for its input, 0 for none.
        stall_share, stall_s: share of steps that stall, and for how long, exponentially distributed [s].
        uneven: standard deviation of the number of steps per epoch, relative.
    """

    epochs: int
    steps: int
    step_s: float
    step: tuple[float, float, float, float, float] = (0.0, 0.08, 0.30, 0.50, 0.12)
    validation_s: float = 0.0
    validation_every: int = 1
    batch_s: float = 0.1
    evaluations: int = 0
    evaluation_s: float = 0.0
    gap_s: float = 0.0
    gap_before: float = 0.0
    checkpoint_every: int = 0
    checkpoint_s: float = 0.0
    compile_s: float = 0.0
    warmup: float = 0.0
    jitter: float = 0.03
    growth: float = 0.0
    wander: float = 0.0
    wander_steps: float = 200.0
    workers: int = 1
    hiccup: float = 0.0
    stall_share: float = 0.0
    stall_s: float = 0.0
    uneven: float = 0.0


def train(plan: SimulatedTraining, rng: np.random.Generator, slowdown: Array | None = None) -> SimulatedTimeline:
    """The job's timeline, with an epoch's marks at its first step and after its validation and save, before its gap.

    Args:
        plan: what the job does.
        rng: source of randomness.
        slowdown: (epochs,) wait this much longer than a step takes, for each step of an epoch (a host that others keep busy).
    """
    counts = np.maximum(2, np.round(plan.steps * (1 + plan.uneven * rng.standard_normal(plan.epochs)))).astype(np.int64)
    total = int(counts.sum())
    lengths = plan.jitter * rng.standard_normal(total) + wander(plan.wander, 1 / plan.wander_steps, total, rng)
    lengths = plan.step_s * np.exp(lengths)
    if plan.growth:
        lengths *= np.exp(plan.growth * (np.concatenate([np.arange(count) / count for count in counts]) - 0.5))
    lengths[: counts[0]] *= 1 + plan.warmup
    waits = lengths * plan.step[0]
    if plan.hiccup:
        waits[plan.workers - 1 :: plan.workers] += plan.hiccup * plan.step_s * rng.lognormal(0, 0.3, total // plan.workers)
    if plan.stall_share:
        waits += np.where(rng.random(total) < plan.stall_share, rng.exponential(plan.stall_s, total), 0.0)
    if slowdown is not None:
        waits += np.repeat(slowdown, counts) * lengths * rng.lognormal(0, 0.2, total)
    waits[0] += plan.compile_s
    seconds = np.column_stack([waits, *(lengths * share for share in plan.step[1:])])

    parts: list[SimulatedTimeline] = []
    starts: list[int] = []
    ends: list[int] = []
    done = 0
    for epoch, first in enumerate(np.cumsum(counts) - counts):
        begin = len(parts)
        for chunk in np.array_split(seconds[first : first + counts[epoch]], plan.evaluations + 1):
            parts.append(SimulatedTimeline.of(np.tile(_STEP, len(chunk)), chunk.ravel()))
            parts.append(evaluate(plan, plan.evaluation_s, rng))
        parts.pop()  # the last chunk is followed by the epoch's own validation
        gap = plan.gap_s * rng.lognormal(0, 0.15) if plan.gap_s else 0.0
        if plan.gap_before:
            parts.append(pause(Phase.WAIT, gap * plan.gap_before))
        if (epoch + 1) % plan.validation_every == 0:
            parts.append(evaluate(plan, plan.validation_s, rng))
        if plan.checkpoint_every and (epoch + 1) % plan.checkpoint_every == 0:
            parts.append(pause(Phase.SAVE, plan.checkpoint_s * rng.lognormal(0, 0.08)))
        starts.append(done)
        done += sum(len(part.phases) for part in parts[begin:])
        ends.append(done)
        parts.append(pause(Phase.WAIT, gap * (1 - plan.gap_before)))
        done += 1
    joined = join(*parts)
    return SimulatedTimeline(joined.phases, joined.seconds, joined.clock, np.array(starts), np.array(ends))


def evaluate(plan: SimulatedTraining, seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """Batches of a validation of about `seconds`, none for 0."""
    count = max(1, round(seconds / plan.batch_s)) if seconds else 0
    lengths = seconds / max(1, count) * rng.lognormal(0, 0.03) * np.exp(plan.jitter * rng.standard_normal(count))
    wait, copy = plan.step[0], min(0.3, 2 * plan.step[1])
    spans = np.column_stack([wait * lengths, copy * lengths, (1 - wait - copy) * lengths])
    return SimulatedTimeline.of(np.tile(_BATCH, count), spans.ravel())


def wander(deviation: float, fading: float, count: int, rng: np.random.Generator) -> Array:
    """Stationary Ornstein-Uhlenbeck process, (count,), of a standard deviation; from one to the next it fades by e^-fading."""
    keep = float(np.exp(-fading))
    pushes = deviation * np.sqrt(1 - keep**2) * rng.standard_normal(count)
    out, _ = lfilter([1.0], [1.0, -keep], pushes, zi=[keep * deviation * rng.standard_normal()])
    return np.asarray(out)
