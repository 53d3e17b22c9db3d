"""What to do: stay, move, or measure first. One rule for commands, service and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from epochcast.analyzer.jobs.decide import Decision, Rival
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.rank import JobLimits, Objective, Reason, cost_of, missed, time_of

Action = Literal["stay", "move", "measure", "choose", "none"]
"""``choose``: what the job runs on now has no price, so there is nothing to compare with; ``none``: no instance qualifies."""

LEAST_SAVING = 0.05
"""By choice: less is not worth a move, and no prediction can resolve it (repeated public measurements differ by 2.4 %)."""

# By choice: a verdict says what it costs by the other objective from here on.
_MUCH = 1.2

# By choice, as our intervals hold nine of ten: a limit is kept with some certainty.
_LIKELY = 0.9


@dataclass(frozen=True)
class Verdict:
    """What to do with a job.

    Attributes:
        action: see :data:`Action`.
        text: the same in a few words, with figures where they are sure.
        why: one sentence.
    """

    action: Action
    text: str
    why: str


def verdict(
    decision: Decision | None,
    now: Placement | None,
    objective: Objective,
    unit: str,
    limits: JobLimits | None = None,
    rows: Sequence[Placement] = (),
) -> Verdict:
    """Weigh the best instance against what the job runs on now.

    Args:
        decision: how sure the first place is; None where no instance qualifies.
        now: the job on what it runs on; None where that has no price.
        objective: cost or time.
        unit: epoch, step or cycle, of a run that would decide.
        limits: that what it runs on now may break.
        rows: all instances that qualify, best first.
    """
    if decision is None:
        return Verdict("none", "No instance qualifies", "each breaks a limit or is too small; loosen a limit")
    best, better = decision.first, "cheaper" if objective == "cost" else "faster"
    if now is None:
        superlative = "cheapest" if objective == "cost" else "fastest"
        probably = "" if decision.sure else "probably "
        why = "the current instance has no price to compare with"
        return Verdict("choose", f"{_name(best)} is {probably}the {superlative}", why)
    broken = None if limits is None else missed(now, limits)
    if broken is not None:
        return _instead(best, now, broken, rows)
    low, high = _saved(best, now, objective)
    experiment = decision.experiment
    test = experiment.run if experiment and experiment.run.placement.hardware != now.hardware else None
    first = f"run {test.epochs} {unit}s on {_name(test.placement)}" if test else f"measure {_name(best)}"
    if _place(best) == _place(now) or high < LEAST_SAVING:
        why = _no_better(decision, now, better)
        if experiment is not None and experiment.worth and test:
            return Verdict("measure", f"Cannot tell yet: {first} first", f"{why}, and a test run saves more than it costs")
        stay = "Stay" if _rival(decision, now) is None else "Probably stay"
        return Verdict("stay", f"{stay} on {_name(now)}", why)
    if best.fits is None:
        doubt = "if the job fits into its memory, which is unknown"
        return Verdict("measure", f"Cannot tell yet: try {_name(best)} first", f"{_range(low, high, objective)}, {doubt}")
    sheet = "; this relies on its data sheet, because nothing was measured on this GPU" * best.prediction.by_data_sheet
    if low > 0 and now.seconds is None:
        why = f"by the ratio alone, {_range(low, high, objective)}{sheet}"
        return Verdict("measure", "Cannot tell yet: record until epochs show", why)
    if low > 0:
        ratio, price = best.prediction.ratio, best.usd_per_hour / now.usd_per_hour
        same = best.instance.place == now.instance.place
        do = f"Use all GPUs of {_name(best)}" if same else f"Move to {_name(best)}"
        return Verdict(
            "move",
            f"{do}: {_saving(low, high, objective)}{_price_of_it(best, now, objective)}",
            f"the job takes {_times(ratio)} the time there, at {_times(price)} the price per hour{sheet}",
        )
    if experiment is not None and not experiment.worth:
        why = f"{_range(low, high, objective)}{sheet}; a test run would cost more than it saves"
        expected = 1 - (cost_of(best) / cost_of(now) if objective == "cost" else time_of(best) / time_of(now))
        if expected < LEAST_SAVING:
            return Verdict("stay", f"Stay on {_name(now)}", f"{_name(best)} is no clear gain: {why}")
        return Verdict("measure", f"Try {_name(best)}: probably {better}", why)
    return Verdict("measure", f"Cannot tell yet: {first} first", f"{_range(low, high, objective)}{sheet}")


def _instead(best: Placement, now: Placement, broken: Reason, rows: Sequence[Placement]) -> Verdict:
    """What to do where the job cannot stay: the best that keeps the limit with some certainty, not by half a chance."""
    if broken not in ("deadline", "budget"):
        why = "the job needs more memory than its GPU has"
        return Verdict("move", f"Move to {_name(best)}: {_name(now)} has too little memory", why)
    keeps = "finishing in time" if broken == "deadline" else "staying within the budget"
    breaks = f"{_name(now)} would {'miss the deadline' if broken == 'deadline' else 'exceed the budget'}"

    def chance(row: Placement) -> float:
        return (row.deadline_chance if broken == "deadline" else row.budget_chance) or 0.0

    safe = next((row for row in (best, *rows) if chance(row) >= _LIKELY), None)
    if safe is None:
        why = f"{breaks}, and there the chance of {keeps} is {_percent(chance(best))} %"
        return Verdict("measure", f"Cannot tell yet: measure {_name(best)} first", why)
    why = f"the chance of {keeps} there is {_percent(chance(safe))} %"
    if _place(safe) != _place(best):
        why += f"; on {_name(best)} it is {_percent(chance(best))} %"
    return Verdict("move", f"Move to {_name(safe)}: {breaks}", why)


def _saving(low: float, high: float, objective: Objective) -> str:
    share = f"{_percent(low)} to {_percent(high)} %"
    return f"{share} cheaper" if objective == "cost" else f"takes {share} less time"


def _price_of_it(best: Placement, now: Placement, objective: Objective) -> str:
    """What is lost by the other objective, where that is much: nobody wants a job that is cheaper and never ends."""
    other, what = (time_of, "in {} the time") if objective == "cost" else (cost_of, "at {} the cost")
    factor = other(best) / other(now)
    return f", {what.format(_times(factor))}" if factor >= _MUCH else ""


def _no_better(decision: Decision, now: Placement, better: str) -> str:
    """Why to stay, and what has a chance to be better all the same."""
    rival = _rival(decision, now)
    if rival is None:
        return f"nothing else is more than {_percent(LEAST_SAVING)} % {better}"
    chance = f"{_name(rival.placement)} has a chance of {_percent(rival.chance)} %"
    return f"nothing else is expected to be more than {_percent(LEAST_SAVING)} % {better}, though {chance} to be {better}"


def _rival(decision: Decision, now: Placement) -> Rival | None:
    """What has a chance to be better than the first, on other hardware than now."""
    return next((rival for rival in decision.rivals if rival.placement.hardware != now.hardware), None)


def _saved(best: Placement, now: Placement, objective: Objective) -> tuple[float, float]:
    """Least and most that is saved, as shares of what it takes now: 90 % interval, only of the part that is spent in epochs."""
    value = cost_of if objective == "cost" else time_of
    share, ratio = value(best) / value(now), best.prediction
    fixed = best.job.fixed_s / best.seconds.value if best.job is not None and best.seconds else 0.0
    ends = [share * (fixed + (1 - fixed) * end / ratio.ratio) for end in (ratio.ratio_low, ratio.ratio_high)]
    return 1 - ends[1], 1 - ends[0]


def _range(low: float, high: float, objective: Objective) -> str:
    """``it may cost 12 % more or 40 % less``."""
    more, less = ("cost", "less") if objective == "cost" else ("take", "less")
    return (
        f"there the job may {more} {_percent(-low)} % more or {_percent(high)} % {less}"
        if low < 0
        else (f"there the job would {more} {_percent(low)} to {_percent(high)} % {less}")
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _times(factor: float) -> str:
    return f"{factor:.2g} times"


def _name(row: Placement) -> str:
    count = f"{row.instances} x " if row.instances > 1 else ""
    return f"{count}{row.instance.cloud} {row.instance.name} ({f'{row.gpus} x ' * (row.gpus > 1)}{row.instance.gpu})"


def _place(row: Placement) -> tuple[object, ...]:
    return row.instance.cloud, row.instance.name, row.instance.gpu, row.instances, row.gpus
