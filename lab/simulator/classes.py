"""The classes of simulated traces, one line each, and how to draw a trace of one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from zlib import crc32

import numpy as np

from epochcast.detector.errors import InputError
from lab.simulator import other_classes as other
from lab.simulator import training_classes as training
from lab.simulator.log import Log, logged, read
from lab.simulator.scenario import Scenario, observe
from lab.simulator.trace import SimulatedTrace


@dataclass(frozen=True)
class ClassSpec:
    """One class of traces.

    Attributes:
        draw: makes a scenario of the class, or what a log is of.
        training: whether its traces have epochs.
        visible: whether somebody who looks at a plot would see them, and one answer is right: what a detector must find.
        steps: whether it is strictly periodic without epochs, so that the right answer is `steps`.
    """

    draw: Callable[[np.random.Generator], Scenario | Log]
    training: bool = True
    visible: bool = True
    steps: bool = False

    @property
    def description(self) -> str:
        """One sentence."""
        return (self.draw.__doc__ or "").strip()


def _unseen(draw: Callable[[np.random.Generator], Scenario]) -> ClassSpec:
    return ClassSpec(draw, visible=False)


def _other(draw: Callable[[np.random.Generator], Scenario], *, steps: bool = False) -> ClassSpec:
    return ClassSpec(draw, training=False, visible=False, steps=steps)


CLASSES: Mapping[str, ClassSpec] = MappingProxyType(
    {
        "paper": ClassSpec(training.paper),
        "validation": ClassSpec(training.validation),
        "gap": ClassSpec(training.gap),
        "many": ClassSpec(training.many),
        "long": ClassSpec(training.long),
        "short": ClassSpec(training.short),
        "messy": ClassSpec(training.messy),
        "iterations": ClassSpec(training.iterations),
        "evaluations": ClassSpec(training.evaluations),
        "checkpoints": ClassSpec(training.checkpoints),
        "missing": ClassSpec(training.missing),
        "slow_first": ClassSpec(training.slow_first),
        "shared": ClassSpec(training.shared),
        "throttled": ClassSpec(training.throttled),
        "varying": ClassSpec(training.varying),
        "unfreezing": ClassSpec(training.unfreezing),
        "resumed": ClassSpec(training.resumed),
        "lead": ClassSpec(training.lead),
        "sometimes_evaluated": ClassSpec(training.sometimes_evaluated),
        "long_start": ClassSpec(training.long_start),
        "half_duty": ClassSpec(training.half_duty),
        "logged": ClassSpec(logged),
        "few": _unseen(training.few),
        "no_gap": _unseen(training.no_gap),
        "two_jobs": _unseen(training.two_jobs),
        "sparse": _unseen(training.sparse),
        "changing": _unseen(training.changing),
        "idle": _other(other.idle),
        "serving": _other(other.serving),
        "bursts": _other(other.bursts),
        "batch_inference": _other(other.batch_inference, steps=True),
        "random_walk": _other(other.random_walk),
        "llm_steps": _other(other.llm_steps, steps=True),
        "notebook": _other(other.notebook),
        "hyperparameter_search": _other(other.hyperparameter_search),
        "evaluation_only": _other(other.evaluation_only),
    }
)


def simulate_class(cls: str, seed: int) -> SimulatedTrace:
    """Draw one trace of a class; the same class and seed give the same trace, bit for bit.

    Args:
        cls: key of `CLASSES`.
        seed: 0 or more.

    Raises:
        InputError: an unknown class, or a negative seed.
    """
    if cls not in CLASSES:
        raise InputError(f"class {cls!r} cannot be simulated: choose one of {', '.join(CLASSES)}")
    if seed < 0:
        raise InputError(f"seed={seed}: give 0 or more")
    rng = np.random.default_rng([crc32(cls.encode()), seed])
    drawn = CLASSES[cls].draw(rng)
    trace = read(cls, seed, drawn, rng) if isinstance(drawn, dict) else observe(cls, seed, drawn, rng)
    return replace(trace, steps=CLASSES[cls].steps)
