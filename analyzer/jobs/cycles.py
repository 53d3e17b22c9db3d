"""The cycles of a job in words: what they are, what goes by while the GPU waits, and how fast the job gets on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epochcast.analyzer.words import length, money, number
from epochcast.detector import Cycle, Detection, Reason

LEAST_SHARE = 0.01
"""A share of the time below this is not worth a sentence. By choice; the alert on the hardware's slowdown begins here, too."""

LONGEST_STEP_S = 4.0
"""A cycle of unknown kind that is shorter than this has no epochs, see `track.detect`."""

_NAMES = {
    "step": "steps",
    "checkpoint": "what looks like checkpoints",
    "evaluation": "what looks like evaluations",
    "epoch": "the ends of epochs",
    "unknown": "the boundaries of a cycle of unknown kind",
}


# By choice. Less work is what a desktop or a driver does, no job. Copies keep the utilization of a GPU up whose SMs do nothing.
_IDLE_BELOW = {"gpu_utilization": 0.005, "gr_engine_active": 0.005, "sm_active": 0.01}


def idle_at(means: Mapping[str, float]) -> tuple[str, float] | None:
    """The metric that shows that a GPU idles, and its mean; None where it works. ``means``: of its metrics, 0..1."""
    return next(((name, means[name]) for name, least in _IDLE_BELOW.items() if means.get(name, 1.0) < least), None)


def cycle_lines(cycles: Sequence[Cycle]) -> list[str]:
    """A line on each cycle of a detection, from short to long, and one on each that keeps the GPU waiting at its boundary."""
    lines = [
        f"{cycle.kind if cycle.kind != 'unknown' else 'cycle of unknown kind'}: {length(cycle.period_s)}{open_text(cycle)}, "
        f"confidence {cycle.confidence:.2f}{_idle(cycle)}; {cycle.evidence}"
        for cycle in cycles
    ]
    return [*lines, *waits(cycles)]


def open_text(cycle: Cycle) -> str:
    """``, which may hold 1, 2 or 4 epochs``; nothing where telemetry refutes the cycle's parts."""
    if not cycle.k_open:
        return ""
    return f", which may hold 1{''.join(f', {k}' for k in cycle.k_open[:-1])} or {cycle.k_open[-1]} epochs"


def _idle(cycle: Cycle) -> str:
    return "" if cycle.idle_share is None else f", GPU idle {100 * cycle.idle_share:.0f} %"


def waits(cycles: Sequence[Cycle], usd_per_hour: float | None = None) -> list[str]:
    """A sentence on each kind of boundary at which a share of the time is spent waiting: "14 % of the time goes to …"."""
    sentences = []
    for cycle in cycles:
        seconds = min(cycle.boundary_idle_s or 0.0, cycle.period_s)
        share = seconds / cycle.period_s
        if share < LEAST_SHARE:
            continue
        cost = "" if usd_per_hour is None else f", {money(share * usd_per_hour)}/h"
        name = _NAMES[cycle.kind].removeprefix("what looks like " if cycle.kind_confidence == 1.0 else "")
        sentences.append(
            f"{100 * share:.0f} % of the time goes to {name} ({length(seconds)} in {length(cycle.period_s)}{cost})"
        )
    return sentences


@dataclass(frozen=True)
class Throughput:
    """How fast a job gets on.

    Attributes:
        samples_per_s, tokens_per_s: None where their number in a step was not given.
        step_s: seconds of the step that they are of.
    """

    samples_per_s: float | None
    tokens_per_s: float | None
    step_s: float

    def times_as_long(self, ratio: float) -> Throughput:
        """Where each step takes ``ratio`` times as long."""
        samples, tokens = (None if rate is None else rate / ratio for rate in (self.samples_per_s, self.tokens_per_s))
        return Throughput(samples, tokens, ratio * self.step_s)

    @property
    def known(self) -> list[tuple[str, str]]:
        """The rates that are known, in words, and their units."""
        rates = (self.samples_per_s, "samples/s"), (self.tokens_per_s, "tokens/s")
        return [(number(rate), unit) for rate, unit in rates if rate is not None]

    def sentence(self) -> str:
        """``261 samples/s at 980 ms per step``."""
        return f"{', '.join(map(' '.join, self.known))} at {length(self.step_s)} per step"


def throughput(cycles: Sequence[Cycle], samples_per_step: float | None, tokens_per_step: float | None) -> Throughput | None:
    """Samples and tokens per second, where a step is among the cycles; None where none is, or nobody gave their number.

    A short cycle with nothing longer around it is a step if somebody says what is in one.
    """
    short = cycles[0] if len(cycles) == 1 and cycles[0].period_s < LONGEST_STEP_S else None
    step = next((cycle for cycle in cycles if cycle.kind == "step"), short)
    if step is None or (samples_per_step is None and tokens_per_step is None):
        return None
    samples, tokens = (None if many is None else many / step.period_s for many in (samples_per_step, tokens_per_step))
    return Throughput(samples, tokens, step.period_s)


NO_STEP = "samples and tokens per second are unknown: the telemetry shows no steps"


def second_job(detection: Detection) -> str | None:
    """What to say of a second job on the GPU; None without one."""
    if len(detection.jobs) < 2:
        return None
    first, second = (length(job.period_s) for job in detection.jobs[:2])
    return sharing(f"besides {first} there is a cycle of {second} that drifts against it")


def sharing(evidence: str) -> str:
    """What to say of a GPU that two jobs share, and of the evidence for it."""
    return f"two jobs share the GPU: {evidence}; the answer is for one of them, but the metrics cover both"


REASONS: dict[Reason, str] = {
    "too_few_samples": "no epochs found: too few samples. Record for longer, or at a shorter interval.",
    "no_cycle": "no epochs found: no cycle stands out.",
    "rival_cycles": "no epochs found: two cycles are equally likely. Record for longer, or with more metrics.",
    "undersampled": "no epochs found: what repeats takes less than three readings. Record at a shorter interval.",
    "period_changes": "no single epoch length: the period changes.",
}


def no_answer(detection: Detection) -> str | None:
    """Why, and in a second line how it was searched; None where the method does not say why."""
    if detection.reason is None:
        return None
    how = f"method {detection.method}, {detection.clock} clock"
    # Plain "confidence" would read as that of finding nothing. Where the period changes, each stretch has its own.
    if detection.confidence > 0 and not detection.stretches:
        how += f", confidence of the best candidate {detection.confidence:.2f}"
    return f"{REASONS[detection.reason]}\n({how})"
