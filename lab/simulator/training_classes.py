"""Draws of training jobs: what a class fixes is written here, the rest is left to chance.

Ranges are by choice; the first classes are those of ../shared/research/detector.md, 2, the later ones have what recordings
of real GPUs have and those lacked (docs/detector.md, "Simulated classes").
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from lab.simulator.draws import draw_training, log_uniform, uncropped
from lab.simulator.other_jobs import batches, bursts, serving, starting, steps
from lab.simulator.scenario import RecordingFaults, Scenario, SimulatedProcess
from lab.simulator.timeline import Phase, join, pause
from lab.simulator.training import SimulatedTraining, train

_LONGEST_S = 9_400.0  # of all epochs together, unless a class says otherwise; by choice


def _alone(rng: np.random.Generator, plan: SimulatedTraining, contrast: float = 0.0, **recording: Any) -> Scenario:
    timeline = uncropped(rng, train(plan, rng))
    return Scenario((SimulatedProcess(timeline, plan, contrast),), RecordingFaults(**recording))


def _contrast(rng: np.random.Generator) -> float:
    """Of a validation that somebody who looks at a plot would see."""
    return log_uniform(rng, 0.14, 0.6)


def _epochs(rng: np.random.Generator, epoch_s: float, low: int = 4, high: int = 60, longest_s: float = 3000.0) -> int:
    """How many epochs of a length, within bounds of number and of all together."""
    return max(low, min(round(log_uniform(rng, low, high)), int(longest_s / epoch_s)))


def _usual(rng: np.random.Generator, **more: Any) -> SimulatedTraining:
    """Validation and a gap at each epoch's end, as most training loops have."""
    epoch_s = more.pop("epoch_s", None) or log_uniform(rng, 6, 150)
    more = {
        "epochs": _epochs(rng, epoch_s),
        "validation": rng.uniform(0.05, 0.22),
        "gap_s": min(rng.uniform(0.1, 1.5), 0.08 * epoch_s),
        "gap_before": float(rng.choice([0.0, 0.3])),
        "growth": rng.uniform(-0.6, 0.6) if rng.random() < 0.1 else 0.0,
        **more,
    }
    return draw_training(rng, epoch_s=epoch_s, **more)


def paper(rng: np.random.Generator) -> Scenario:
    """Ten epochs, each with a validation and a gap, little before and after."""
    plan = _usual(rng, epochs=10)
    return Scenario((SimulatedProcess(uncropped(rng, train(plan, rng), lead_s=(2, 10)), plan, _contrast(rng)),))


def validation(rng: np.random.Generator) -> Scenario:
    """A validation, and no gap that 10 Hz could show."""
    return _alone(rng, _usual(rng, gap_s=0.0, gap_before=0.0, validation=rng.uniform(0.06, 0.25)), _contrast(rng))


def gap(rng: np.random.Generator) -> Scenario:
    """Nothing on the device for 0.25 to 2 s between epochs, no validation."""
    epoch_s = log_uniform(rng, 5, 100)
    gap_s = min(log_uniform(rng, 0.25, 2), 0.12 * epoch_s)
    plan = _usual(rng, epoch_s=epoch_s, validation=0.0, gap_s=gap_s, gap_before=0.0)
    # Waiting for the loader looks like a short gap; if it were as long, they would be indistinguishable.
    return _alone(rng, replace(plan, hiccup=min(plan.hiccup, gap_s / (3 * plan.step_s))))


def few(rng: np.random.Generator) -> Scenario:
    """Two or three epochs, the first one slower."""
    return _alone(rng, _usual(rng, epochs=int(rng.integers(2, 4)), warmup=0.3), _contrast(rng))


def many(rng: np.random.Generator) -> Scenario:
    """100 to 500 epochs."""
    epochs = round(log_uniform(rng, 100, 500))
    return _alone(rng, _usual(rng, epochs=epochs, epoch_s=log_uniform(rng, 3, min(60, _LONGEST_S / epochs))), _contrast(rng))


def long(rng: np.random.Generator) -> Scenario:
    """Epochs of 3 minutes to an hour."""
    epoch_s = log_uniform(rng, 180, 3600)
    epochs = max(3, min(12, int(_LONGEST_S / epoch_s)))
    return _alone(rng, _usual(rng, epochs=epochs, epoch_s=min(epoch_s, 10_000 / epochs)), _contrast(rng))


def short(rng: np.random.Generator) -> Scenario:
    """Epochs of 1 to 4 s."""
    epoch_s = log_uniform(rng, 1, 4)
    more = {"epochs": _epochs(rng, epoch_s, 15, 400, 1200), "gap_s": rng.uniform(0.08, 0.3), "gap_before": 0.0}
    return _alone(rng, _usual(rng, epoch_s=epoch_s, validation=rng.uniform(0.1, 0.25), **more), _contrast(rng))


def messy(rng: np.random.Generator) -> Scenario:
    """Stalls, drift, throttling, checkpoints now and then, readings that are far off."""
    epoch_s = log_uniform(rng, 10, 120)
    plan = _usual(
        rng,
        epoch_s=epoch_s,
        epochs=_epochs(rng, epoch_s, 6, 40),
        gap_s=min(rng.uniform(0.3, 1.5), 0.08 * epoch_s),
        checkpoint_every=int(rng.integers(2, 6)),
        checkpoint_s=rng.uniform(0.01, 0.06) * epoch_s,
        wander=log_uniform(rng, 0.01, 0.04),
    )
    plan = replace(plan, stall_share=rng.uniform(0.3, 1.5) / plan.steps, stall_s=rng.uniform(0.01, 0.03) * epoch_s)
    job = train(plan, rng)
    begin = rng.uniform(0.1, 0.8) * job.length_s
    job = job.slowed(begin, begin + rng.uniform(0.1, 0.3) * job.length_s, 1 - rng.uniform(0.12, 0.3))
    return Scenario(
        (SimulatedProcess(uncropped(rng, job), plan, _contrast(rng)),), RecordingFaults(glitches=0.001, jitter_s=0.005), 1.3
    )


def iterations(rng: np.random.Generator) -> Scenario:
    """Steps of 0.8 to 3 s, each to be seen."""
    step_s = log_uniform(rng, 0.8, 3)
    epoch_s = step_s * log_uniform(rng, 12, 80)
    plan = _usual(rng, epoch_s=epoch_s, step_s=step_s, hiccup=0.0, gap_s=min(rng.uniform(0.4, 2), 0.08 * epoch_s))
    return _alone(rng, plan, _contrast(rng))


def evaluations(rng: np.random.Generator) -> Scenario:
    """One to three evaluations within each epoch, like that at its end, which is longer and followed by a save or a gap."""
    epoch_s = log_uniform(rng, 15, 200)
    share = rng.uniform(0.06, 0.15)
    plan = _usual(
        rng,
        epoch_s=epoch_s,
        validation=share,
        evaluations=int(rng.integers(1, 4)),
        evaluation_s=share * epoch_s * rng.uniform(0.35, 0.8),
        gap_s=min(rng.uniform(0.5, 2), 0.06 * epoch_s),
        checkpoint_every=1,
        checkpoint_s=min(rng.uniform(0.2, 1.5), 0.05 * epoch_s),
    )
    return _alone(rng, plan, _contrast(rng))


def checkpoints(rng: np.random.Generator) -> Scenario:
    """A long save every two to ten epochs."""
    every = int(rng.integers(2, 11))
    epoch_s = log_uniform(rng, 5, 60)
    # With a save in every second epoch the median length is midway between both kinds: no method could name it within 5 %.
    save_s = log_uniform(rng, 0.02, 0.07 if every == 2 else 0.2) * epoch_s
    epochs = _epochs(rng, epoch_s, 3 * every, 8 * every)
    return _alone(rng, _usual(rng, epoch_s=epoch_s, epochs=epochs, checkpoint_every=every, checkpoint_s=save_s), _contrast(rng))


def missing(rng: np.random.Generator) -> Scenario:
    """Rows that are not there, time stamps that are a little off, and two holes."""
    holes_s = (log_uniform(rng, 2, 20), log_uniform(rng, 2, 20))
    return _alone(rng, _usual(rng), _contrast(rng), missing=rng.uniform(0.02, 0.15), jitter_s=0.03, holes_s=holes_s)


def slow_first(rng: np.random.Generator) -> Scenario:
    """A first epoch 1.5 to 4 times as long: compilation, tuning, a cold cache."""
    epoch_s = log_uniform(rng, 6, 120)
    longer = rng.uniform(0.5, 3)
    slow = {"compile_s": longer * epoch_s} if rng.random() < 0.5 else {"warmup": longer}
    return _alone(rng, _usual(rng, epoch_s=epoch_s, epochs=_epochs(rng, epoch_s, 5, 40), **slow), _contrast(rng))


def shared(rng: np.random.Generator) -> Scenario:
    """Another tenant slows the job: epochs of the same work take one to two times as long."""
    plan = _usual(rng, epoch_s=log_uniform(rng, 8, 100))
    loads = rng.uniform(0, 1, plan.epochs) * (rng.random(plan.epochs) < 0.6)
    loads = np.repeat(loads, rng.integers(1, 4, plan.epochs))[: plan.epochs]  # a tenant stays for some epochs
    job = uncropped(rng, train(plan, rng, slowdown=loads))
    jobs = [SimulatedProcess(job, plan, _contrast(rng))]
    if rng.random() < 0.4:  # on the device itself; else on its host, where the device's counters do not show him
        quiet_s = rng.uniform(0, 0.5) * job.length_s
        tenant = serving(rng.uniform(0.2, 0.5) * job.length_s, rng, rate=rng.uniform(1, 6), request_s=0.03)
        jobs.append(SimulatedProcess(join(pause(Phase.PARKED, quiet_s), tenant)))
    return Scenario(tuple(jobs))


def throttled(rng: np.random.Generator) -> Scenario:
    """The clock steps down for part of the run."""
    epoch_s = log_uniform(rng, 6, 150)
    plan = _usual(rng, epoch_s=epoch_s, epochs=_epochs(rng, epoch_s, 7, 60))
    job = train(plan, rng)
    slot_s = job.length_s / int(rng.integers(1, 4))
    # Half of each slot at most, so that the usual epoch stays the usual one; from the last on, as each moves what follows.
    for slot in np.arange(0, job.length_s - slot_s / 2, slot_s)[::-1]:
        length_s = rng.uniform(0.1, 0.5) * slot_s
        begin = slot + rng.uniform(0, 1) * (slot_s - length_s)
        job = job.slowed(begin, begin + length_s, rng.uniform(0.6, 0.92))
    return Scenario((SimulatedProcess(uncropped(rng, job), plan, _contrast(rng)),))


def varying(rng: np.random.Generator) -> Scenario:
    """Epochs whose number of steps differs by 3 to 8 %."""
    return _alone(rng, _usual(rng, uneven=rng.uniform(0.03, 0.08)), _contrast(rng))


def unfreezing(rng: np.random.Generator) -> Scenario:
    """The first epochs train the last layers only and take less time: transfer learning."""
    plan = _usual(rng, compile_s=0.0)
    wait, copy, forward, backward, update = plan.step
    less = rng.uniform(0.1, 0.5)  # of what the full backward pass and update take
    rest = 1 - (1 - less) * (backward + update)
    head = replace(
        plan,
        epochs=max(1, round(plan.epochs * rng.uniform(0.15, 0.35))),
        step_s=plan.step_s * rest,
        step=(wait / rest, copy / rest, forward / rest, less * backward / rest, less * update / rest),
    )
    tail = replace(plan, epochs=max(4, plan.epochs - head.epochs), warmup=0.0)
    return Scenario((SimulatedProcess(uncropped(rng, join(train(head, rng), train(tail, rng))), plan, _contrast(rng)),))


def resumed(rng: np.random.Generator) -> Scenario:
    """The job is killed within an epoch and started again from its last checkpoint."""
    epoch_s = log_uniform(rng, 6, 100)
    epochs = _epochs(rng, epoch_s, 9, 60)
    plan = _usual(rng, epoch_s=epoch_s, epochs=epochs, checkpoint_every=1, checkpoint_s=rng.uniform(0.01, 0.05) * epoch_s)
    first = train(plan, rng).until_epoch(round(epochs * rng.uniform(0.4, 0.6)), lost=rng.uniform(0.1, 0.9))
    again = train(replace(plan, epochs=epochs - first.starts.size), rng)
    down = pause(Phase.PARKED, log_uniform(rng, 3, 60)), pause(Phase.SETUP, rng.uniform(2, 10))
    return Scenario((SimulatedProcess(uncropped(rng, join(first, *down, again)), plan, _contrast(rng)),))


def sometimes_evaluated(rng: np.random.Generator) -> Scenario:
    """An evaluation after every second to sixth epoch only, as long as 0.1 to 0.9 of one."""
    every = int(rng.integers(2, 7))
    epoch_s = log_uniform(rng, 6, 80)
    gap_s = min(log_uniform(rng, 0.3, 2), 0.1 * epoch_s)
    epochs = _epochs(rng, epoch_s, 3 * every, 8 * every)
    plan = _usual(rng, epoch_s=epoch_s, epochs=epochs, validation=0.0, gap_s=gap_s, gap_before=0.0)
    plan = replace(plan, validation_every=every, validation_s=rng.uniform(0.1, 0.9) * epoch_s)
    if every == 2:  # the median distance of starts must be one without an evaluation, and not the slow first epoch's
        plan = replace(plan, epochs=epochs - epochs % 2, warmup=0.0, compile_s=0.0)
    return _alone(rng, replace(plan, hiccup=min(plan.hiccup, gap_s / (3 * plan.step_s))), _contrast(rng))


def long_start(rng: np.random.Generator) -> Scenario:
    """Loading and compilation before the first epoch, for 0.3 to 1.5 times as long as all epochs together."""
    plan = _usual(rng)
    job = train(plan, rng)
    before_s, after_s = rng.uniform(0.3, 1.5) * job.length_s, rng.uniform(0.05, 0.4) * job.length_s
    timeline = join(pause(Phase.PARKED, rng.uniform(1, 10)), starting(before_s, rng), job, pause(Phase.PARKED, after_s))
    return Scenario((SimulatedProcess(timeline, plan, _contrast(rng)),))


def half_duty(rng: np.random.Generator) -> Scenario:
    """The GPU works for 35 to 65 % of each epoch: the rest is loading or validation on the CPU, or a save."""
    epoch_s = log_uniform(rng, 6, 150)
    rest_s = rng.uniform(0.35, 0.65) * epoch_s
    saves = bool(rng.random() < 0.3)
    plan = _usual(rng, epoch_s=epoch_s - rest_s, validation=0.0, gap_s=0.0, gap_before=0.0, hiccup=0.0)
    plan = replace(plan, checkpoint_every=int(saves), checkpoint_s=rest_s * saves, gap_s=rest_s * (not saves))
    job = train(plan, rng)
    if not saves:  # the same files each time: more even than the usual gap
        seconds = job.seconds.copy()
        seconds[job.ends] = rest_s * rng.lognormal(0, 0.03, plan.epochs)
        job = replace(job, seconds=seconds)
    return Scenario((SimulatedProcess(uncropped(rng, job), plan),))


def lead(rng: np.random.Generator) -> Scenario:
    """Long preprocessing before, another job after: nobody has cropped the trace."""
    plan = _usual(rng)
    job = train(plan, rng)
    before_s, after_s = rng.uniform(0.15, 0.9, 2) * job.length_s
    before = (
        bursts(before_s, rng, pause_s=rng.uniform(0.5, 5), burst_s=rng.uniform(0.2, 3))
        if rng.random() < 0.5
        else batches(before_s, rng, batch_s=rng.uniform(0.1, 1))
    )
    after = serving(after_s, rng) if rng.random() < 0.5 else steps(after_s, rng, step_s=rng.uniform(0.05, 0.5))
    timeline = uncropped(rng, join(before, pause(Phase.SETUP, rng.uniform(2, 8)), job, pause(Phase.WAIT, 3.0), after))
    return Scenario((SimulatedProcess(timeline, plan, _contrast(rng)),))


def no_gap(rng: np.random.Generator) -> Scenario:
    """No validation, and a gap of 20 to 60 ms."""
    return _alone(rng, _usual(rng, validation=0.0, gap_s=rng.uniform(0.02, 0.06), gap_before=0.0, growth=0.0))


def sparse(rng: np.random.Generator) -> Scenario:
    """A reading every 10, 15 or 30 s, as wandb takes them: 5 to 60 in an epoch."""
    interval_s = float(rng.choice([10.0, 15.0, 30.0]))
    epoch_s = interval_s * log_uniform(rng, 5, 60)
    epochs = _epochs(rng, epoch_s, 4, 40, longest_s=15_000)
    plan = _usual(rng, epoch_s=epoch_s, epochs=epochs, gap_s=log_uniform(rng, 0.3, 0.06 * epoch_s))
    timeline = uncropped(rng, train(plan, rng), lead_s=(10, 300))
    averaged = bool(rng.random() < 0.5)
    recording = RecordingFaults(interval_s=interval_s * (1 + rng.uniform(0, 0.005)), averaged=averaged, jitter_s=0.03)
    return Scenario((SimulatedProcess(timeline, plan, _contrast(rng)),), recording)


def changing(rng: np.random.Generator) -> Scenario:
    """Near the middle, epochs become 1.3 to 2.5 times as long or short: other data, or larger pictures."""
    epoch_s = log_uniform(rng, 6, 80)
    plan = _usual(rng, epoch_s=epoch_s, epochs=_epochs(rng, epoch_s, 15, 60))
    ratio = log_uniform(rng, 1.3, 2.5) ** int(rng.choice([-1, 1]))
    longer = {"steps": round(plan.steps * ratio)} if rng.random() < 0.5 else {"step_s": plan.step_s * ratio}
    head = replace(plan, epochs=round(plan.epochs * rng.uniform(0.35, 0.65)))
    tail = replace(
        plan,
        epochs=plan.epochs - head.epochs,
        validation_s=plan.validation_s * ratio,
        gap_s=plan.gap_s * ratio,
        compile_s=0.0,
        warmup=0.0,
        **longer,
    )
    return Scenario((SimulatedProcess(uncropped(rng, join(train(head, rng), train(tail, rng))), plan, _contrast(rng)),))


def two_jobs(rng: np.random.Generator) -> Scenario:
    """Two trainings at once, each with epochs of its own."""
    first_s = log_uniform(rng, 8, 80)
    second_s = first_s * log_uniform(rng, 1.2, 4)
    length_s = second_s * rng.integers(6, 25)
    jobs = []
    for epoch_s in rng.permutation([first_s, second_s]):
        plan = _usual(rng, epoch_s=float(epoch_s), epochs=max(4, int(rng.uniform(0.7, 1) * length_s / epoch_s)))
        timeline = join(pause(Phase.PARKED, rng.uniform(0, 0.2) * length_s), uncropped(rng, train(plan, rng)))
        jobs.append(SimulatedProcess(timeline, plan, _contrast(rng)))
    return Scenario(tuple(jobs))
