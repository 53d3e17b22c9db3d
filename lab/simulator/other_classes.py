"""Draws of what is not a training: none of these has epochs to be found.

Ranges are by choice; the first classes are those of ../shared/research/detector.md, 2.
"""

from __future__ import annotations

import numpy as np

from lab.simulator import other_jobs
from lab.simulator.draws import log_uniform, uncropped
from lab.simulator.scenario import Scenario, SimulatedProcess
from lab.simulator.timeline import Phase, SimulatedTimeline, pause


def _alone(rng: np.random.Generator, timeline: SimulatedTimeline) -> Scenario:
    return Scenario((SimulatedProcess(uncropped(rng, timeline)),))


def _length(rng: np.random.Generator) -> float:
    return log_uniform(rng, 120, 2400)


def idle(rng: np.random.Generator) -> Scenario:
    """Nothing, or a process that does nothing."""
    seconds = _length(rng)
    return _alone(rng, pause(Phase.PARKED, seconds) if rng.random() < 0.3 else other_jobs.idle(seconds, rng))


def serving(rng: np.random.Generator) -> Scenario:
    """Requests at random times."""
    rate = log_uniform(rng, 0.3, 12)
    return _alone(rng, other_jobs.serving(_length(rng), rng, rate=rate, request_s=rng.uniform(0.02, 0.5) / max(1, rate / 2)))


def bursts(rng: np.random.Generator) -> Scenario:
    """Work of random length at random distances."""
    return _alone(rng, other_jobs.bursts(_length(rng), rng, pause_s=log_uniform(rng, 1, 30), burst_s=log_uniform(rng, 0.5, 15)))


def batch_inference(rng: np.random.Generator) -> Scenario:
    """One batch like the other, strictly periodic."""
    return _alone(rng, other_jobs.batches(_length(rng), rng, batch_s=log_uniform(rng, 0.06, 3), jitter=rng.uniform(0, 0.03)))


def random_walk(rng: np.random.Generator) -> Scenario:
    """Activity that wanders without any cycle."""
    return _alone(rng, other_jobs.random_walk(_length(rng), rng))


def llm_steps(rng: np.random.Generator) -> Scenario:
    """Strictly periodic steps of some micro-batches each, and no epochs."""
    step_s = log_uniform(rng, 0.6, 3.6)
    # Micro-batches of less than 0.15 s are a blur at 10 Hz, and the step around them nearly so.
    accumulation = int(rng.choice([count for count in (1, 2, 4, 8, 16) if step_s / count > 0.15]))
    return _alone(
        rng,
        other_jobs.accumulated_steps(_length(rng), rng, micro_s=step_s / (accumulation + 0.3), accumulation=accumulation),
    )


def notebook(rng: np.random.Generator) -> Scenario:
    """Somebody runs cells by hand."""
    return _alone(rng, other_jobs.notebook(_length(rng), rng))


def hyperparameter_search(rng: np.random.Generator) -> Scenario:
    """Many short trainings of one pass each, no two of the same length."""
    return _alone(rng, other_jobs.hyperparameter_search(_length(rng), rng))


def evaluation_only(rng: np.random.Generator) -> Scenario:
    """One network over data sets of all sizes."""
    return _alone(rng, other_jobs.evaluation_only(_length(rng), rng))
