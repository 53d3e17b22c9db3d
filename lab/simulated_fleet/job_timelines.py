"""What one job does while it is watched, and what each of its GPUs does of that: in step, though not all equally fast."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lab.simulated_fleet.layout import Work
from lab.simulator import other_jobs
from lab.simulator.devices import SimulatedDevice
from lab.simulator.draws import draw_training, log_uniform
from lab.simulator.scenario import draw_noise
from lab.simulator.telemetry import Noise
from lab.simulator.timeline import Phase, SimulatedTimeline, join, pause
from lab.simulator.training import train
from lab.simulator.workload import SimulatedWorkload, draw

Array = NDArray[np.float64]

# Nobody is served in a training: there this phase represents the kernels that spin while a GPU waits for the others.
SPIN = Phase.SERVE

# What spinning kernels keep busy, of the metrics that are not zero then (plausible, not measured).
_SPINNING = {"gr_engine_active": 0.98, "sm_active": 0.12, "sm_occupancy": 0.02, "dram_active": 0.03}

_ANY_STEP = (0.05, 0.05, 0.30, 0.50, 0.10)
_EPOCHS_S = (6.0, 200.0)
# A straggler's clock next to the others'; how much of its work a GPU that does not straggle waits for the slowest.
_SLOW_CLOCK = (0.75, 0.92)
_LUCK = 0.004


@dataclass(frozen=True)
class JobDrawn:
    """One job.

    Attributes:
        work: its kind.
        timeline: of its slowest GPU, from the beginning of what is watched (second 0).
        workload, noise: what its phases do to the metrics.
        slow_clock: clock of its straggler relative to what it would be, below 1; 1 without one.
        period_s: true length of a step of ``steps`` and ``inference``; None of others.
    """

    work: Work
    timeline: SimulatedTimeline
    workload: SimulatedWorkload
    noise: Noise
    slow_clock: float
    period_s: float | None


def draw_job(
    work: Work,
    device: SimulatedDevice,
    begin_s: float,
    end_s: float,
    rng: np.random.Generator,
    *,
    straggles: bool,
    running: bool,
) -> JobDrawn:
    """Draw a job that works from ``begin_s`` to ``end_s`` of what is watched; ``running``: it began before."""
    seconds = end_s - begin_s
    step, contrast = _ANY_STEP, 0.3
    if work == "training":
        epoch_s = log_uniform(rng, *_EPOCHS_S)
        plan = draw_training(
            rng,
            epochs=math.ceil(seconds / epoch_s) + 4,
            epoch_s=epoch_s,
            validation=rng.uniform(0.05, 0.22),
            gap_s=min(rng.uniform(0.1, 1.5), 0.08 * epoch_s),
            gap_before=float(rng.choice([0.0, 0.3])),
        )
        step, contrast = plan.step, log_uniform(rng, 0.14, 0.6)
        timeline, skipped_s = train(plan, rng), rng.uniform(1.0, 2.0) * epoch_s
    else:
        timeline, skipped_s = _OTHERS[work](1.3 * seconds + 30, rng), rng.uniform(0, 0.2) * seconds
    slow_clock = rng.uniform(*_SLOW_CLOCK) if straggles else 1.0
    if slow_clock < 1:
        timeline = timeline.slowed(0, math.inf, slow_clock)
    if not running:
        timeline = join(pause(Phase.SETUP, min(rng.uniform(2, 12), 0.1 * seconds)), timeline)
    timeline = window(timeline, skipped_s if running else 0.0, seconds)
    workload = draw(device, step, contrast, rng)
    if work in ("training", "steps"):
        workload = replace(workload, levels={name: _with_spin(name, values) for name, values in workload.levels.items()})
    if begin_s:
        timeline = join(pause(Phase.PARKED, begin_s), timeline)
    return JobDrawn(work, timeline, workload, draw_noise(rng), slow_clock, _period(work, timeline))


def on_gpu(job: JobDrawn, *, straggler: bool, alone: bool, rng: np.random.Generator) -> SimulatedTimeline:
    """What one of its GPUs does: it works as long as its chip takes, and waits for the slowest; a straggler never waits."""
    if alone or straggler or job.work not in ("training", "steps"):
        return job.timeline
    speed = job.slow_clock / (1 + abs(rng.normal(0, _LUCK)))
    timeline = job.timeline
    works = np.isin(timeline.phases, (Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE, Phase.VALIDATE))
    seconds = np.column_stack(
        [np.where(works, timeline.seconds * speed, timeline.seconds), timeline.seconds * (1 - speed) * works]
    )
    phases = np.column_stack([timeline.phases, np.full_like(timeline.phases, SPIN)])
    return SimulatedTimeline(phases.ravel(), seconds.ravel(), np.ones(phases.size), 2 * timeline.starts, 2 * timeline.ends)


def window(timeline: SimulatedTimeline, begin_s: float, seconds: float) -> SimulatedTimeline:
    """The part of a timeline that begins at ``begin_s`` and lasts ``seconds``; with the epochs that lie in it whole."""
    edges = np.concatenate([[0.0], np.cumsum(timeline.seconds)])
    starts, ends = edges[timeline.starts], edges[timeline.ends]
    complete = (starts >= begin_s) & (ends <= begin_s + seconds)
    first = max(0, int(np.searchsorted(edges, begin_s, side="right")) - 1)
    last = max(first + 1, int(np.searchsorted(edges, begin_s + seconds, side="left")))
    cut = np.clip(edges[first : last + 1], begin_s, begin_s + seconds)
    return SimulatedTimeline(
        timeline.phases[first:last],
        np.diff(cut),
        timeline.clock[first:last],
        timeline.starts[complete] - first,
        timeline.ends[complete] - first,
    )


def idle_seconds(timelines: list[SimulatedTimeline], seconds: float, *, least_s: float) -> float:
    """Seconds without any work on the device, in stretches of at least ``least_s``."""
    busy = []
    for timeline in timelines:
        edges = np.concatenate([[0.0], np.cumsum(timeline.seconds)])
        works = ~np.isin(timeline.phases, (Phase.PARKED, Phase.WAIT, Phase.SETUP)) & (timeline.seconds > 0)
        busy.append(np.column_stack([edges[:-1][works], edges[1:][works]]))
    spans = np.concatenate([*busy, [[0.0, 0.0], [seconds, seconds]]])
    spans = spans[np.argsort(spans[:, 0])]
    gaps = spans[1:, 0] - np.maximum.accumulate(spans[:-1, 1])
    return float(gaps[gaps >= least_s].sum())


def _with_spin(name: str, values: Array) -> Array:
    values = values.copy()
    values[SPIN] = _SPINNING.get(name, 0.0)
    return values


def _period(work: Work, timeline: SimulatedTimeline) -> float | None:
    """Distance of two updates, or of two batches' copies."""
    marks = {"steps": Phase.UPDATE, "inference": Phase.COPY}
    if work not in marks:
        return None
    begins = (np.cumsum(timeline.seconds) - timeline.seconds)[timeline.phases == marks[work]]
    return float(np.median(np.diff(begins))) if begins.size > 1 else None


def _llm(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    step_s = log_uniform(rng, 0.6, 3.6)
    accumulation = int(rng.choice([count for count in (1, 2, 4, 8) if step_s / count > 0.15]))
    return other_jobs.accumulated_steps(seconds, rng, micro_s=step_s / (accumulation + 0.3), accumulation=accumulation)


def _idle(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    return pause(Phase.PARKED, seconds) if rng.random() < 0.5 else other_jobs.idle(seconds, rng)


_OTHERS: dict[Work, Callable[[float, np.random.Generator], SimulatedTimeline]] = {
    "steps": _llm,
    "inference": lambda seconds, rng: other_jobs.batches(seconds, rng, batch_s=log_uniform(rng, 0.06, 3), jitter=0.02),
    "serving": lambda seconds, rng: other_jobs.serving(seconds, rng, rate=log_uniform(rng, 0.5, 12), request_s=0.04),
    "notebook": other_jobs.notebook,
    "idle": _idle,
}
