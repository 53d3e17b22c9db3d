"""The epoch list and the answer of a detection method."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["epochs", "steps", "none"]
ClockName = Literal["wall", "work"]

#: What happens at the boundaries of a cycle; `unknown` where no metric shows it.
Kind = Literal["step", "checkpoint", "evaluation", "epoch", "unknown"]

#: What repeats with a period: an epoch, a step, or another cycle, such as the time between two checkpoints.
Unit = Literal["epoch", "step", "cycle"]

#: Why there is no answer: too few samples to see a cycle; nothing repeats clearly; a cycle and its part or multiple are
#: about equally likely; what repeats takes less than three readings; the period changes and no part has most of the time.
Reason = Literal["too_few_samples", "no_cycle", "rival_cycles", "undersampled", "period_changes"]


@dataclass(frozen=True)
class Epoch:
    """One epoch, from the first sample of its training phase to the start of the next epoch.

    Attributes:
        start, end: unix seconds.
        confidence: 0..1, in the convention of the method that found it.
    """

    start: float
    end: float
    confidence: float


@dataclass(frozen=True)
class Stretch:
    """A part of the trace in which one period holds.

    Attributes:
        start, end: unix seconds of its first and last boundary.
        period_s: wall seconds.
        confidence: 0..1, as `Detection.confidence`.
        epochs: number of epochs in it.
    """

    start: float
    end: float
    period_s: float
    confidence: float
    epochs: int


@dataclass(frozen=True)
class JobEpochs:
    """The epochs of one training job, if several share a trace."""

    period_s: float
    epochs: tuple[Epoch, ...]
    confidence: float


@dataclass(frozen=True)
class Cycle:
    """Something that a job repeats.

    Attributes:
        kind: its kind; a `step` may be several steps.
        period_s: wall seconds.
        confidence: 0..1 that the period is right.
        evidence: why it has this kind: what happens at its boundary, and how often it is there in the next longer cycle.
        idle_share: 0..1, the share of the cycle in which the GPU waited or copied; None if no metric shows it.
        boundary_idle_s: seconds of this at its boundary; None if nothing happens there.
        kind_confidence: 0..1 that `kind` is right, apart from the period; 0 where it is `unknown`.
        k_open: how many epochs one cycle may hold, other than 1; empty where telemetry refutes its parts.
    """

    kind: Kind
    period_s: float
    confidence: float
    evidence: str
    idle_share: float | None
    boundary_idle_s: float | None
    kind_confidence: float = 0.0
    k_open: tuple[int, ...] = ()


@dataclass(frozen=True)
class Detection:
    """What a method found in a trace.

    Attributes:
        verdict: `epochs`; `steps`, a strict cycle shorter than the method's bound for epochs; `none`, no answer.
        period_s: wall seconds of one epoch (verdict `epochs`) or of one cycle (verdict `steps`), None with verdict `none`.
        period_work: the same in seconds of the work clock; None on the wall clock and with verdict `none`.
        epochs: in the order of time, none overlapping; empty unless the verdict is `epochs`.
        confidence: 0..1, in the convention of the method (stated in its docstring).
        method: key of `METHODS`.
        clock: the requested or chosen clock; a method may also have searched another (`track` does).
        step_s: wall seconds of one cycle, only with verdict `steps`.
        jobs: one entry per job found; methods that know only one job give that one.
        reason: with verdict `none`, why; None otherwise, and from methods that give no reason.
        samples_per_epoch: samples of the trace in one period; None without a period.
        stretches: in the order of time, the parts of the trace with a period each. Several if the period changes: `period_s`
            is then the period of the longest part, or None (reason `period_changes`) if no part has most of the time.
        cycles: from short to long, what the job repeats, including the cycle of `period_s`. Empty from methods that do not
            search for cycles, and with verdict `none`.
        scores: arrays for plots, which no JSON has; the method's docstring names them, their units and lengths.
    """

    verdict: Verdict
    period_s: float | None
    period_work: float | None
    epochs: tuple[Epoch, ...]
    confidence: float
    method: str
    clock: ClockName
    step_s: float | None = None
    jobs: tuple[JobEpochs, ...] = ()
    reason: Reason | None = None
    samples_per_epoch: float | None = None
    stretches: tuple[Stretch, ...] = ()
    cycles: tuple[Cycle, ...] = ()
    scores: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def cycle(self) -> Cycle | None:
        """The member of `cycles` with the period `period_s`; None without any."""
        return cycle_of(self.period_s, self.cycles)

    @property
    def unit(self) -> Unit | None:
        """What repeats every `period_s`; None with verdict `none`."""
        return unit_of(self.verdict, self.period_s, self.cycles)


def cycle_of(period_s: float | None, cycles: Sequence[Cycle]) -> Cycle | None:
    """The cycle whose period is nearest to this one; None without any."""
    if period_s is None or not cycles:
        return None
    return min(cycles, key=lambda cycle: abs(math.log(cycle.period_s / period_s)))


def unit_of(verdict: Verdict, period_s: float | None, cycles: Sequence[Cycle]) -> Unit | None:
    """What repeats with this period; None with verdict `none`."""
    if verdict == "none":
        return None
    cycle = cycle_of(period_s, cycles)
    if cycle is None:  # from a method that does not look at what happens
        return "epoch" if verdict == "epochs" else "step"
    return cycle.kind if cycle.kind in ("epoch", "step") else "cycle"
