"""One textbook job on a Tesla T4, every length of which is given: for tests and demonstrations. Defaults are by choice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from epochcast.detector.errors import InputError
from lab.simulator.devices import T4
from lab.simulator.other_jobs import serving
from lab.simulator.telemetry import Noise, measure
from lab.simulator.timeline import TICK_S, Phase, SimulatedTimeline, join, pause
from lab.simulator.trace import SimulatedTrace
from lab.simulator.training import SimulatedTraining, train
from lab.simulator.workload import textbook

_OTHERS: dict[str, Callable[[float, np.random.Generator], SimulatedTimeline]] = {
    "serving": serving,
    "idle": lambda seconds, _: pause(Phase.WAIT, seconds),
}
KINDS = ("training", *_OTHERS)


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
    """Simulate one job's telemetry; the same arguments give the same trace. No hardware was read, see `simulate_class`.

    `kind`: `training` (epochs of steps, validation, checkpoint, gap), `serving` (requests at random times) or `idle`; these two
    last as long as a training of `epochs` x `epoch_s`. `epoch_s`: nominal distance of two epoch starts [s], of which
    validation, checkpoint and gap take their share and steps of `step_s` the rest; a checkpoint that not every epoch has comes
    on top. `lead_s`: time before and after the job [s]. `checkpoint_every`: epochs between checkpoints, 0 for none. `warmup`:
    how much longer the first epoch's steps take (ratio). `start`: unix seconds of the trace's beginning.

    Raises InputError for an unknown kind and for counts or times that cannot be or do not fit together.
    """
    plan = {
        "epochs": epochs,
        "epoch_s": epoch_s,
        "step_s": step_s,
        "validation_s": validation_s,
        "gap_s": gap_s,
        "lead_s": lead_s,
        "checkpoint_every": checkpoint_every,
        "checkpoint_s": checkpoint_s,
        "warmup": warmup,
    }
    _check(plan, kind)
    rng = np.random.default_rng(seed)
    job = _training(plan, rng) if kind == "training" else _OTHERS[kind](epochs * epoch_s, rng)
    before = join(pause(Phase.PARKED, lead_s / 2), pause(Phase.SETUP, lead_s / 2))
    timeline = join(before, job, pause(Phase.PARKED, lead_s))
    ticks = int(timeline.length_s / TICK_S)
    metrics = measure([(timeline, textbook(rng))], T4, Noise(), ticks, rng)
    starts, ends = timeline.marks()
    return SimulatedTrace(
        time=start + TICK_S * np.arange(1, ticks + 1, dtype=np.float64),
        metrics=metrics,
        epoch_starts=start + starts,
        epoch_ends=start + ends,
        training=kind == "training",
        gpu=T4.name,
        settings={"seed": seed, "kind": kind, **plan},
    )


def _training(plan: dict[str, Any], rng: np.random.Generator) -> SimulatedTimeline:
    # A checkpoint comes on top only where not every epoch has one: epochs then really differ in length.
    given = {name: value for name, value in plan.items() if name not in ("epoch_s", "lead_s")}
    steps_s = plan["epoch_s"] - plan["validation_s"] - plan["gap_s"]
    steps_s -= plan["checkpoint_s"] if plan["checkpoint_every"] == 1 else 0.0
    return train(SimulatedTraining(steps=max(1, round(steps_s / plan["step_s"])), wander=0.005, **given), rng)


def _check(plan: dict[str, Any], kind: str) -> None:
    if kind not in KINDS:
        raise InputError(f"kind {kind!r} cannot be simulated; choose one of {', '.join(KINDS)}")
    least = {"epochs": 1, "epoch_s": 0.01, "step_s": 0.01}
    for name, value in plan.items():
        if not np.isfinite(value) or value < least.get(name, 0):
            raise InputError(f"{name}={value} cannot be simulated; give a finite number of at least {least.get(name, 0)}")
    steps_s = plan["epoch_s"] - plan["validation_s"] - plan["gap_s"] - plan["checkpoint_s"]
    if kind == "training" and steps_s < plan["step_s"]:
        raise InputError(
            f"epoch_s={plan['epoch_s']} leaves {steps_s:.2f} s for steps of {plan['step_s']} s;"
            " make the epoch longer, or validation, checkpoint and gap shorter"
        )
