"""What all classes draw alike: numbers over decades, a training of a given epoch, what surrounds a job.

Ranges are by choice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lab.simulator.timeline import Phase, SimulatedTimeline, join, pause
from lab.simulator.training import SimulatedTraining


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A number whose logarithm is uniform between two bounds."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def draw_training(
    rng: np.random.Generator,
    *,
    epochs: int,
    epoch_s: float,
    validation: float = 0.0,
    gap_s: float = 0.0,
    step_s: float | None = None,
    **more: Any,
) -> SimulatedTraining:
    """A training with epochs of about `epoch_s`, of which `validation` (share) and `gap_s` hold no step; the rest by chance."""
    left_s = epoch_s * (1 - validation) - gap_s - more.get("evaluations", 0) * more.get("evaluation_s", 0.0)
    if step_s is None:
        step_s = log_uniform(rng, max(0.03, epochs * epoch_s / 120_000), max(0.06, min(0.5, left_s / 12)))
    wait, copy, update = rng.uniform(0, 0.2), rng.uniform(0.005, 0.12), rng.uniform(0.02, 0.2)
    forward = rng.uniform(0.28, 0.42) * (1 - wait - copy - update)
    settings: dict[str, Any] = {
        "batch_s": step_s * rng.uniform(0.3, 0.8),
        "compile_s": rng.exponential(1.5),
        "warmup": rng.uniform(0, 0.15),
        "jitter": log_uniform(rng, 0.005, 0.1),
        "wander": log_uniform(rng, 0.002, 0.02),
        "wander_steps": log_uniform(rng, 20, 2000),
        "workers": int(rng.choice([2, 4, 8, 12])),
        "hiccup": rng.uniform(0.2, 1.2) if rng.random() < 0.4 else 0.0,
        **more,
    }
    return SimulatedTraining(
        epochs=epochs,
        steps=max(4, round(left_s / (step_s * (1 + settings["hiccup"] / settings["workers"])))),
        step_s=step_s,
        step=(wait, copy, forward, 1 - wait - copy - forward - update, update),
        validation_s=validation * epoch_s,
        gap_s=gap_s,
        **settings,
    )


def uncropped(
    rng: np.random.Generator, job: SimulatedTimeline, *, lead_s: tuple[float, float] = (4.0, 40.0)
) -> SimulatedTimeline:
    """The job between what comes before it (nothing, then imports and loading) and after it."""
    before, after = rng.uniform(*lead_s, 2)
    loading = [pause(phase, rng.exponential(before / 6)) for phase in (Phase.WAIT, Phase.SETUP) * 2]
    return join(pause(Phase.PARKED, before / 3), *loading, job, pause(Phase.PARKED, after))
