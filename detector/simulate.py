"""Simulated 10 Hz telemetry of one Tesla T4, with true epoch marks; everything derived from it must be called *simulated*.

A job is a timeline of phases (copy a batch, forward, backward, update, validate, save, wait …) laid out in continuous time and
sampled every 10 ms. A tick's value is the mean over its ten samples of what each phase does to each metric
(`simulated_device`), as a DCGM profiling field averages over its interval. No hardware was read, so an accuracy on these
traces says nothing about a real GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .simulated_device import NAME, TICK_S, Phase, measure

Array = NDArray[np.float64]

_FINE_PER_TICK = 10


@dataclass(frozen=True)
class SimulatedTrace:
    """One simulated trace and its true marks.

    ``time``: (n,) unix seconds, one row per 0.1 s tick, stamped at the end of the interval that it averages. ``metrics``: name
    of the metric catalogue -> (n,) in base units; a slow metric is NaN between its readings, once a second. ``epoch_starts``
    and ``epoch_ends``: (k,) unix seconds, empty where ``training`` is false. ``settings``: the arguments that gave the trace.
    """

    time: Array
    metrics: dict[str, Array]
    epoch_starts: Array
    epoch_ends: Array
    training: bool
    gpu: str = NAME
    settings: dict[str, Any] = field(default_factory=dict)

    def labels(self) -> dict[str, Any]:
        """The marks as the object of a label file (``NAME.json`` beside a trace)."""
        return {
            "epoch_starts": self.epoch_starts.tolist(),
            "epoch_ends": self.epoch_ends.tolist(),
            "training": self.training,
            "simulated": True,
            "settings": self.settings,
        }


@dataclass(frozen=True)
class _Plan:
    """The settings of one call, in seconds unless said; see `simulate`."""

    epochs: int
    epoch_s: float
    step_s: float
    validation_s: float
    gap_s: float
    lead_s: float
    checkpoint_every: int
    checkpoint_s: float
    warmup: float


def simulate(
    seed: int = 0,
    *,
    kind: str = "training",
    epochs: int = 12,
    epoch_s: float = 20.0,
    step_s: float = 0.25,
    validation_s: float = 2.0,
    gap_s: float = 0.5,
    lead_s: float = 12.0,
    checkpoint_every: int = 1,
    checkpoint_s: float = 0.6,
    warmup: float = 0.15,
    start: float = 1_700_000_000.0,
) -> SimulatedTrace:
    """Simulate one job's telemetry; the same arguments give the same trace.

    ``kind``: ``training`` (epochs of steps, validation, checkpoint, gap), ``serving`` (requests at random times) or ``idle``;
    these two last as long as a training of ``epochs`` x ``epoch_s``. ``epoch_s``: nominal distance of two epoch starts [s], of
    which validation, checkpoint and gap take their share and steps of ``step_s`` the rest. ``lead_s``: time before and after
    the job [s]. ``checkpoint_every``: epochs between checkpoints, 0 for none. ``warmup``: how much longer the first epoch's
    steps take (ratio). ``start``: unix seconds of the trace's beginning.

    Raises InputError for an unknown kind and for counts or times that cannot be or do not fit together.
    """
    plan = _Plan(epochs, epoch_s, step_s, validation_s, gap_s, lead_s, checkpoint_every, checkpoint_s, warmup)
    _check(plan, kind)
    rng = np.random.default_rng(seed)
    phases: list[Phase] = [Phase.PARKED, Phase.SETUP]
    durations: list[float] = [lead_s / 2, lead_s / 2]
    marks: list[tuple[float, float]] = []
    for phase, seconds, mark in _KINDS[kind](plan, rng, lead_s):
        phases.append(phase)
        durations.append(seconds)
        if mark is not None:
            marks.append(mark)
    phases.append(Phase.PARKED)
    durations.append(lead_s)

    share = _phase_shares(np.array(phases), np.array(durations))
    time = start + TICK_S * np.arange(1, len(share) + 1, dtype=np.float64)
    bounds = start + np.array(marks, dtype=np.float64).reshape(-1, 2)
    settings = {"seed": seed, "kind": kind, **vars(plan)}
    return SimulatedTrace(time, measure(share, rng), bounds[:, 0], bounds[:, 1], bool(marks), settings=settings)


Segment = tuple[Phase, float, tuple[float, float] | None]  # phase, seconds, and the (start, end) of an epoch that it closes


def _training(plan: _Plan, rng: np.random.Generator, begin: float) -> Iterator[Segment]:
    """Epochs of steps; ``begin``: seconds from the trace's start to the first epoch's."""
    now = begin
    for epoch in range(plan.epochs):
        epoch_start = now
        save = plan.checkpoint_every > 0 and (epoch + 1) % plan.checkpoint_every == 0
        # A checkpoint comes on top only where not every epoch has one: epochs then really differ in length.
        regular_save_s = plan.checkpoint_s if plan.checkpoint_every == 1 else 0.0
        steps_s = plan.epoch_s - plan.validation_s - plan.gap_s - regular_save_s
        for _ in range(max(1, round(steps_s / plan.step_s))):
            heat = 1 - np.exp(-(now - begin) / 60)  # a warm chip leaks more, gets less clock within its 70 W, and slows down
            slow = (1 + 0.02 * heat) * (1 + plan.warmup * (epoch == 0)) * rng.lognormal(0, 0.03)
            for phase, part in ((Phase.COPY, 0.08), (Phase.FORWARD, 0.30), (Phase.BACKWARD, 0.50), (Phase.UPDATE, 0.12)):
                yield phase, part * plan.step_s * slow, None
            now += plan.step_s * slow
        for phase, seconds in ((Phase.VALIDATE, plan.validation_s), (Phase.SAVE, plan.checkpoint_s * save)):
            duration = seconds * rng.lognormal(0, 0.04)
            now += duration
            yield phase, duration, (epoch_start, now) if phase is Phase.SAVE else None
        gap = plan.gap_s * rng.lognormal(0, 0.15)
        now += gap
        yield Phase.WAIT, gap, None


def _serving(plan: _Plan, rng: np.random.Generator, begin: float) -> Iterator[Segment]:
    """Requests of about 50 ms at exponential distances, whose rate wanders."""
    now, rate = 0.0, 4.0
    while now < plan.epochs * plan.epoch_s:
        rate = float(np.clip(rate * rng.lognormal(0, 0.05), 0.5, 12.0))
        wait, busy = rng.exponential(1 / rate), rng.gamma(4.0, 0.0125)
        yield Phase.WAIT, wait, None
        yield Phase.SERVE, busy, None
        now += wait + busy


def _idle(plan: _Plan, rng: np.random.Generator, begin: float) -> Iterator[Segment]:
    """A process that holds the GPU and does nothing."""
    yield Phase.WAIT, plan.epochs * plan.epoch_s, None


_KINDS: dict[str, Callable[[_Plan, np.random.Generator, float], Iterator[Segment]]] = {
    "training": _training,
    "serving": _serving,
    "idle": _idle,
}


def _phase_shares(phases: NDArray[np.int64], durations: Array) -> Array:
    """Share of each tick spent in each phase, shape (ticks, phases), from the phase at the middle of every 10 ms."""
    ends = np.cumsum(durations)
    ticks = int(ends[-1] / TICK_S)
    middles = (np.arange(ticks * _FINE_PER_TICK) + 0.5) * (TICK_S / _FINE_PER_TICK)
    phase = phases[np.minimum(np.searchsorted(ends, middles, side="right"), len(phases) - 1)]
    cell = np.arange(len(middles)) // _FINE_PER_TICK * len(Phase) + phase
    counts = np.bincount(cell, minlength=ticks * len(Phase)).reshape(ticks, len(Phase))
    return counts / np.float64(_FINE_PER_TICK)


def _check(plan: _Plan, kind: str) -> None:
    if kind not in _KINDS:
        raise InputError(f"kind {kind!r} cannot be simulated; choose one of {', '.join(_KINDS)}")
    if plan.epochs < 1:
        raise InputError(f"epochs={plan.epochs}: simulate at least one epoch")
    if plan.checkpoint_every < 0:
        raise InputError(f"checkpoint_every={plan.checkpoint_every}: give a number of epochs, or 0 for no checkpoints")
    for name, value in vars(plan).items():
        least = 0.01 if name in ("epoch_s", "step_s") else 0
        if not np.isfinite(value) or value < least:
            raise InputError(f"{name}={value} cannot be simulated; give a finite number of at least {least}")
    steps_s = plan.epoch_s - plan.validation_s - plan.gap_s - plan.checkpoint_s
    if kind == "training" and steps_s < plan.step_s:
        raise InputError(
            f"epoch_s={plan.epoch_s} leaves {steps_s:.2f} s for steps of {plan.step_s} s;"
            " make the epoch longer, or validation, checkpoint and gap shorter"
        )
