"""What a device does when it does not train: timelines without epochs, each of about a given length [s].

Lengths and shares are by choice: plausible ones, not measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lab.simulator.timeline import Phase, SimulatedTimeline, join, pause

Array = NDArray[np.float64]


def idle(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """A process that holds the device and does next to nothing: a kernel of some milliseconds every minute or so."""
    return _alternate(rng.exponential(60.0, int(seconds / 20) + 5), Phase.SERVE, 0.01, seconds)


def serving(seconds: float, rng: np.random.Generator, *, rate: float = 4.0, request_s: float = 0.05) -> SimulatedTimeline:
    """Requests at exponential distances, whose rate [1/s] wanders."""
    count = int(seconds * rate * 3) + 10
    rates = rate * np.exp(np.clip(np.cumsum(0.05 * rng.standard_normal(count)), -2, 1))
    return _alternate(rng.exponential(1 / rates), Phase.SERVE, rng.gamma(4.0, request_s / 4, count), seconds)


def bursts(seconds: float, rng: np.random.Generator, *, pause_s: float, burst_s: float) -> SimulatedTimeline:
    """Work of random length at random distances."""
    count = int(3 * seconds / (pause_s + burst_s)) + 10
    return _alternate(rng.exponential(pause_s, count), Phase.FORWARD, burst_s * rng.lognormal(0, 0.8, count), seconds)


def starting(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """A job before its first step: it reads files, fills the device, compiles, tries kernels out, in any order."""
    parts: list[SimulatedTimeline] = []
    left_s = seconds
    while left_s > 0:
        part_s = min(left_s, 0.5 + rng.exponential(seconds / 12))
        kernels = bursts(part_s, rng, pause_s=rng.uniform(0.2, 5), burst_s=rng.uniform(0.05, 3))
        parts.append((kernels, kernels, pause(Phase.WAIT, part_s), pause(Phase.SETUP, part_s))[rng.integers(4)])
        left_s -= part_s
    return join(*parts)


def random_walk(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """Many small kernels; the share of time that they take does a random walk."""
    cycle_s = 0.05
    walk = np.cumsum(0.02 * rng.standard_normal(int(seconds / cycle_s))) + rng.random()
    duty = np.abs((walk + 1) % 2 - 1)  # reflected at 0 and 1
    return _alternate(cycle_s * (1 - duty), Phase.FORWARD, cycle_s * duty, seconds)


def batches(seconds: float, rng: np.random.Generator, *, batch_s: float, jitter: float = 0.01) -> SimulatedTimeline:
    """One batch after the other through a network, each alike: wait, copy, forward, results back."""
    lengths = batch_s * rng.lognormal(0, jitter, max(1, int(seconds / batch_s)))
    return _repeat((Phase.WAIT, Phase.COPY, Phase.SERVE), (rng.uniform(0, 0.3), rng.uniform(0.02, 0.2), 0.7), lengths)


def accumulated_steps(seconds: float, rng: np.random.Generator, *, micro_s: float, accumulation: int) -> SimulatedTimeline:
    """A language model's pre-training: some micro-batches forward and backward, an update, a log line; no epochs."""
    update, logging = rng.uniform(0.1, 0.6), rng.uniform(0.03, 0.2)
    phases = (*(Phase.COPY, Phase.FORWARD, Phase.BACKWARD) * accumulation, Phase.UPDATE, Phase.WAIT)
    shares = (*(0.02, 0.33, 0.65) * accumulation, update, logging)
    lengths = micro_s * rng.lognormal(0, 0.01, max(1, int(seconds / (micro_s * (accumulation + update + logging)))))
    return _repeat(phases, shares, lengths)


def steps(seconds: float, rng: np.random.Generator, *, step_s: float) -> SimulatedTimeline:
    """Training steps of one pass over something."""
    lengths = step_s * rng.lognormal(0, 0.05, max(1, int(seconds / step_s)))
    shares = (rng.uniform(0, 0.2), rng.uniform(0.01, 0.1), 0.28, 0.5, 0.1)
    return _repeat((Phase.WAIT, Phase.COPY, Phase.FORWARD, Phase.BACKWARD, Phase.UPDATE), shares, lengths)


def notebook(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """Somebody thinks, runs a cell, looks at a figure, runs it again with another number."""
    parts: list[SimulatedTimeline] = []
    while sum(part.length_s for part in parts) < seconds:
        think_s = rng.lognormal(np.log(15), 1)
        work_s = rng.lognormal(np.log(2), 1.3)
        cell = steps(work_s, rng, step_s=rng.uniform(0.03, 0.4)) if rng.random() < 0.6 else pause(Phase.SERVE, work_s)
        parts += [pause(Phase.WAIT, think_s), cell]
    return join(*parts)


def hyperparameter_search(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """One trial after the other, each a single pass of another length with a network of another speed."""
    parts: list[SimulatedTimeline] = []
    while sum(part.length_s for part in parts) < seconds:
        trial_s = rng.lognormal(np.log(25), 0.8)
        parts += [
            pause(Phase.PARKED, rng.uniform(0.5, 4)),
            pause(Phase.SETUP, rng.uniform(2, 10)),
            steps(trial_s, rng, step_s=rng.lognormal(np.log(0.15), 0.7)),
            pause(Phase.VALIDATE, trial_s * rng.uniform(0.03, 0.3)),
            pause(Phase.SAVE, rng.exponential(0.5)),
        ]
    return join(*parts)


def evaluation_only(seconds: float, rng: np.random.Generator) -> SimulatedTimeline:
    """One network over a list of data sets of all sizes."""
    parts: list[SimulatedTimeline] = []
    while sum(part.length_s for part in parts) < seconds:
        size_s = rng.lognormal(np.log(20), 0.9)
        parts += [pause(Phase.WAIT, rng.uniform(0.3, 6)), batches(size_s, rng, batch_s=rng.uniform(0.04, 0.6), jitter=0.15)]
    return join(*parts)


def _repeat(phases: tuple[Phase, ...], shares: tuple[float, ...], lengths: Array) -> SimulatedTimeline:
    """The same phases over and over, each time as long as its share of one of the lengths [s]."""
    return SimulatedTimeline.of(np.tile(phases, lengths.size), np.outer(lengths, shares).ravel())


def _alternate(waits: Array, phase: Phase, work: Array | float, seconds: float) -> SimulatedTimeline:
    """A wait, then work, and so on, cut off after `seconds`."""
    spans = np.column_stack([waits, np.broadcast_to(work, waits.shape)]).ravel()
    before = np.cumsum(spans) - spans
    kept = np.minimum(spans, seconds - before)[before < seconds]
    return SimulatedTimeline.of(np.tile((Phase.WAIT, phase), waits.size)[: kept.size], kept)
