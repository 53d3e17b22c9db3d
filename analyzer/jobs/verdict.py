"""The first line: stay, move, or what is missing to say. One rule for commands, HTTP, page and fleet (decision 0076)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from epochcast.analyzer.jobs.rank import (
    JobLimits,
    Objective,
    Placement,
    Reason,
    chance_within,
    cost_of,
    figures_of,
    missed,
    time_of,
)
from epochcast.analyzer.words import between, count, length, money
from epochcast.regressor.prediction import Estimate

Action = Literal["stay", "move", "measure", "choose", "none"]
"""``measure``: only ratios are known; ``choose``: what the job runs on now has no price, so there is nothing to compare with;
``none``: no instance qualifies."""

EQUAL = 0.05
"""By choice: costs this close are equal, and less is not worth a move. Repeated public measurements differ by 2.4 %."""

AT_MOST_SLOWER = 1.5
"""By choice: a move that takes more than this times the present time is not proposed unless somebody says so."""

# By choice: longer than this ago a price is said with its date, and nothing that rests on it is certain.
_FRESH_DAYS = 180

# An error of one in twenty is what "certain" may have.
_CERTAIN = 0.95

# By choice: what switching takes, of the instance that is left.
_SWITCH_S = 1800.0

# By choice, as our intervals hold nine of ten: a limit is kept with some certainty.
_LIKELY = 0.9

# By choice: what costs as much is worth a word if it is faster by this factor.
_FASTER = 1.2


@dataclass(frozen=True)
class Verdict:
    """What to do with a job.

    Attributes:
        action: see :data:`Action`.
        text: the first line.
        why: what else decides, in a sentence; empty where the first line says all.
        certain: the move is cheaper (or faster) with a chance of 95 %, between measured GPUs, at known prices that are not old.
        best: where the job should run; what it runs on now where it should stay, if that has a price.
        slower: what costs less still, and takes longer than allowed; None without.
    """

    action: Action
    text: str
    why: str = ""
    certain: bool = False
    best: Placement | None = None
    slower: Placement | None = None


@dataclass(frozen=True)
class Terms:
    """What a move is weighed by.

    Attributes:
        objective, limits: as of the ranking.
        job: what costs are of, such as ``the 14 epochs in this log``; why there are none, where only ratios are known.
        here: time of the job where it runs now, as `time_of` has it.
        assumed: nobody said what it runs on.
        at_most_slower: most of its time, in times of the present.
        switch_usd: what switching costs; None: half an hour of what the job runs on now.
        epochs, unit: of the job; 0 where only ratios are known.
        timed: seconds of an epoch, or of a step named with confidence, are known.
        trial: epochs and seconds of a test run (`plan_trial`); None without seconds.
    """

    objective: Objective
    limits: JobLimits
    job: str
    here: float
    assumed: bool = False
    at_most_slower: float = AT_MOST_SLOWER
    switch_usd: float | None = None
    epochs: int = 0
    unit: str = "epoch"
    timed: bool = True
    trial: Callable[[Placement], tuple[int, float]] | None = None


def judge(rows: Sequence[Placement], now: Placement | None, terms: Terms) -> Verdict:
    """Weigh what qualifies against what the job runs on now.

    Args:
        rows: all that qualify, with comparable prices.
        now: the job on what it runs on; None where that has no price.
        terms: what to weigh by.
    """
    if not rows:
        return Verdict("none", "No instance qualifies")
    broken = None if now is None else missed(now, terms.limits)
    if now is not None and broken is not None:
        return _leave(rows, now, broken, terms)
    by_cost = terms.objective == "cost"
    allowed = [row for row in rows if not by_cost or time_of(row) <= terms.at_most_slower * terms.here]
    best = pick(allowed, terms.objective)
    cheap = min((cost_of(row) for row in (best, now) if row is not None), default=float("inf"))
    slower = min((row for row in rows if by_cost and row not in allowed), key=cost_of, default=None)
    if slower is not None and cost_of(slower) >= (1 - EQUAL) * cheap:
        slower = None
    if now is None:
        return _choose(best, slower, rows, allowed, terms)
    if best is None:
        why = f"all else takes more than {terms.at_most_slower:g} times as long"
        return Verdict("stay", f"{_stay(now, terms)}: {why}{_doubts(None, now, terms)}", best=now, slower=slower)
    value, _ = figures_of(terms.objective)
    saved, certain = value(now) - value(best), _is_certain(best, now, terms)
    trial = None if certain or terms.trial is None else terms.trial(best)
    trial_s = 0.0 if trial is None else trial[1]
    faster = by_cost and cost_of(best) <= (1 + EQUAL) * cost_of(now) and time_of(best) * _FASTER < time_of(now)
    in_less = faster and now.seconds is not None and time_of(now) - time_of(best) > _SWITCH_S + trial_s
    if (best.instance.offer == now.instance.offer and best.gpus <= now.gpus) or (saved <= EQUAL * value(now) and not in_less):
        what = "nothing else" if slower is None else f"nothing that takes up to {terms.at_most_slower:g} times as long"
        text = f"{_stay(now, terms)}: {what} is more than {100 * EQUAL:.0f} % {'cheaper' if by_cost else 'faster'}"
        why = f"as cheap, in {_times(time_of(best) / time_of(now))}: {best.title}" if faster else ""
        untimed = terms.job if now.seconds is None else ""
        why = "; ".join(filter(None, (untimed, why, _sheet(best, allowed, terms))))
        return Verdict("stay", f"{text}{_doubts(None, now, terms)}", why, best=now, slower=slower)
    price = _price_of_move(now, best, trial_s, terms)
    if now.seconds is not None and saved <= price and not in_less:
        amount, of, spent = (money(each) if by_cost else length(each) for each in (saved, value(now), price))
        why = f"{best.title} would save {amount} of {of} for {terms.job}"
        why += f", and switching{' and finding out' * (trial is not None)} takes {spent}"
        if terms.epochs and saved > 0:
            why += f"; worth it from about {count(_round_up(terms.epochs * price / saved), terms.unit)} on"
        return Verdict("stay", f"{_stay(now, terms)}: {why}{_doubts(None, now, terms)}", best=now, slower=slower)
    doubts = _doubts(best, now, terms)
    if best.seconds is None or now.seconds is None:
        text = f"{best.title} probably does the same work for {_ratios(best, now)}"
        beside = _beside(best, allowed, terms)
        return Verdict("measure", f"{text}{doubts}", "; ".join(filter(None, (terms.job, beside))), best=best, slower=slower)
    equal = "equal in cost, " * (saved <= EQUAL * value(now))
    do = "Use all GPUs of" if best.instance.place == now.instance.place else "Move to"
    how = f"{do} {best.title}: certain to {'cost' if by_cost else 'take'} less"
    if not certain:
        how = f"Probably {do[0].lower()}{do[1:]} {best.title}"
    return Verdict(
        "move",
        f"{how}{', ' if certain else ': '}{equal}{_gain(best, now, terms)} for {terms.job}{doubts}",
        "; ".join(filter(None, (_beside(best, allowed, terms), _find_out(best, trial, terms)))),
        certain=certain,
        best=best,
        slower=slower,
    )


def pick(rows: Sequence[Placement], objective: Objective) -> Placement | None:
    """The fastest of those that cost as little as the cheapest measured one (or the cheapest of the fastest); None of none.

    A GPU that only its data sheet is known of is picked where no measured one is among ``rows``.
    """
    value, other = figures_of(objective)
    pool = [row for row in rows if not row.prediction.by_data_sheet] or rows
    least = min(map(value, pool), default=0.0)
    equal = [row for row in pool if value(row) <= (1 + EQUAL) * least]
    return min(equal, key=lambda row: (other(row), value(row), row.instance.offer), default=None)


def may_be_better(row: Placement, best: Placement, objective: Objective) -> bool:
    """Whether it is better with a chance of one in twenty or more, by its own interval and that of the best."""
    return _chance(row, best, objective) >= 1 - _CERTAIN or _chance(best, row, objective) <= _CERTAIN


def _choose(
    best: Placement | None, slower: Placement | None, rows: Sequence[Placement], allowed: Sequence[Placement], terms: Terms
) -> Verdict:
    """Where what the job runs on now has no price."""
    if best is None:
        text = f"Stay: all that can be rented takes more than {terms.at_most_slower:g} times as long"
        return Verdict("stay", text, slower=slower)
    superlative = "the cheapest" if terms.objective == "cost" else "the fastest"
    value, _ = figures_of(terms.objective)
    if slower is not None:
        superlative += f" that takes up to {terms.at_most_slower:g} times as long"
    elif any(value(row) < value(best) for row in rows if best.prediction.by_data_sheet or not row.prediction.by_data_sheet):
        superlative = f"among {superlative}"  # of what is equal in it, the better in the other
    amount = ""
    if best.seconds is not None and best.usd is not None:
        amount = f": {_amount(best)} for {terms.job}"
    elif terms.objective == "cost":
        amount = f": {money(cost_of(best))} for an hour of its present work"
    text = f"{best.title} is probably {superlative}{amount}{_doubts(best, None, terms)}"
    unknown = "what the job runs on now has no known price"
    return Verdict("choose", text, "; ".join(filter(None, (unknown, _beside(best, allowed, terms)))), best=best, slower=slower)


def _leave(rows: Sequence[Placement], now: Placement, broken: Reason, terms: Terms) -> Verdict:
    """What to do where the job cannot stay: the best that keeps the limit with some certainty, not by half a chance."""
    best = pick(rows, terms.objective)
    assert best is not None
    if broken not in ("deadline", "budget"):
        return Verdict("move", f"Move to {best.title}: {now.title} has too little memory{_cost_there(best)}", best=best)
    keeps = "finishing in time" if broken == "deadline" else "staying within the budget"
    breaks = f"{now.title} would {'miss the deadline' if broken == 'deadline' else 'exceed the budget'}"

    def chance(row: Placement) -> float:
        return (row.deadline_chance if broken == "deadline" else row.budget_chance) or 0.0

    safe = pick([row for row in rows if chance(row) >= _LIKELY], terms.objective)
    if safe is None:
        best = max(rows, key=chance)
        text = (
            f"Probably move to {best.title}: {breaks}, and the chance of {keeps} on the other is {_chance_text(chance(best))}"
        )
        return Verdict("move", f"{text}{_cost_there(best)}{_doubts(best, now, terms)}", best=best)
    why = f"the chance of {keeps} there is {_chance_text(chance(safe))}"
    return Verdict("move", f"Move to {safe.title}: {breaks}{_cost_there(safe)}{_doubts(safe, now, terms)}", why, best=safe)


def _amount(row: Placement) -> str:
    """``$7.42 in 7 h 48 min``."""
    return "" if row.usd is None or row.seconds is None else f"{money(row.usd.value)} in {length(row.seconds.value)}"


def _cost_there(row: Placement) -> str:
    return f"; {_amount(row)} there" if _amount(row) else ""


def _is_certain(best: Placement, now: Placement, terms: Terms) -> bool:
    measured = not best.prediction.by_data_sheet and terms.timed and not terms.assumed and best.seconds is not None
    old = any(_is_old(row) for row in (best, now))
    return measured and best.fits is True and not old and _chance(best, now, terms.objective) >= _CERTAIN


def _chance(best: Placement, now: Placement, objective: Objective) -> float:
    """That the job costs (or takes) less there than now; only the part that is spent in epochs varies."""
    value, ratio = figures_of(objective)[0], best.prediction
    fixed = best.job.fixed_s / best.seconds.value if best.job is not None and best.seconds else 0.0
    most = (value(now) / value(best) - fixed) / (1 - fixed)
    return (
        chance_within(Estimate(1.0, ratio.ratio_low / ratio.ratio, ratio.ratio_high / ratio.ratio), most) if most > 0 else 0.0
    )


def _price_of_move(now: Placement, best: Placement, trial_s: float, terms: Terms) -> float:
    """What switching and finding out take: USD, or seconds."""
    if terms.objective == "time":
        return _SWITCH_S + trial_s
    switch_usd = _SWITCH_S / 3600 * now.usd_per_hour if terms.switch_usd is None else terms.switch_usd
    return switch_usd + trial_s / 3600 * best.usd_per_hour


def _gain(best: Placement, now: Placement, terms: Terms) -> str:
    """``$7.42 ($4.49 to $12.28) instead of $14.90, in 7.8 h instead of 7.76 h``."""
    assert best.usd is not None and best.seconds is not None and now.usd is not None and now.seconds is not None
    usd = f"{money(best.usd.value)} ({money(best.usd.low)} to {money(best.usd.high)}) instead of {money(now.usd.value)}"
    there, here = length(best.seconds.value), length(now.seconds.value)
    instead = "as now" if there == here else f"instead of {here}"
    time = f"{there} ({between(best.seconds.low, best.seconds.high)}) {instead}"
    return f"{usd}, in {time}," if terms.objective == "cost" else f"{time}, at {usd},"


def _ratios(best: Placement, now: Placement) -> str:
    """``0.62 times the cost (0.40 to 0.95), in 1.2 times the time``."""
    ratio, share = best.prediction, best.usd_per_hour / now.usd_per_hour
    ends = f"{ratio.ratio_low * share:.2f} to {ratio.ratio_high * share:.2f}"
    return f"{ratio.ratio * share:.2f} times the cost ({ends}), in {_times(ratio.ratio)}"


def _doubts(best: Placement | None, now: Placement | None, terms: Terms) -> str:
    """What the first line has to say besides: what is assumed, old, unknown, or not measured."""
    doubts = []
    if best is not None and best.prediction.by_data_sheet:
        doubts.append("by its data sheet, as nothing was measured on this GPU")
    if best is not None and best.fits is None:
        doubts.append("if its memory suffices, which is not known")
    if best is not None and now is not None and terms.assumed:
        doubts.append(f"assumed: it runs on {now.title} now")
    dates = {row.instance.date for row in (best, now) if row is not None and _is_old(row)}
    doubts += [f"by a price of {min(dates)}"] if dates else []
    return "".join(f"; {doubt}" for doubt in doubts)


def _beside(best: Placement, allowed: Sequence[Placement], terms: Terms) -> str:
    """What costs as much and is slower, and what may be better by its data sheet (`_sheet`)."""
    value, _ = figures_of(terms.objective)
    said = []
    rivals = [row for row in allowed if row.hardware != best.hardware and not row.prediction.by_data_sheet]
    rival = min(rivals, key=value, default=None)
    if terms.objective == "cost" and rival is not None and abs(value(rival) / value(best) - 1) <= EQUAL:
        factor = time_of(rival) / time_of(best)
        said.append(f"equal in cost to {rival.title}, and {factor:.1f} times as fast" if factor >= _FASTER else "")
    return "; ".join(filter(None, (*said, _sheet(best, allowed, terms))))


def _sheet(best: Placement, allowed: Sequence[Placement], terms: Terms) -> str:
    """What may be better by its data sheet; it is never named instead of what was measured."""
    value, _ = figures_of(terms.objective)
    sheets = [row for row in allowed if row.prediction.by_data_sheet and value(row) < (1 - EQUAL) * value(best)]
    if not sheets or best.prediction.by_data_sheet:
        return ""
    sheet = min(sheets, key=value)
    amount = f"{value(sheet) / value(best):.2f} times the {'cost' if terms.objective == 'cost' else 'time'}"
    return f"by its data sheet, {sheet.title} may take {amount}: nothing was measured on it"


def _find_out(best: Placement, trial: tuple[int, float] | None, terms: Terms) -> str:
    if trial is None:
        return ""
    epochs, seconds = trial
    usd = money(seconds / 3600 * best.usd_per_hour)
    return f"to find out first, run {count(epochs, terms.unit)} there: {length(seconds)}, {usd}"


def _stay(now: Placement, terms: Terms) -> str:
    return f"Stay where it runs (assumed: {now.title})" if terms.assumed else f"Stay on {now.title}"


def _is_old(row: Placement) -> bool:
    return row.instance.age_days > _FRESH_DAYS


def _chance_text(chance: float) -> str:
    return "above 99 %" if chance > 0.99 else f"{100 * chance:.0f} %"


def _times(factor: float) -> str:
    return "the same time" if abs(factor - 1) < EQUAL else f"{factor:.2g} times the time"


def _round_up(number: float) -> int:
    """To two digits: what is only about right looks so."""
    digits = max(0, len(str(int(number))) - 2)
    return int(math.ceil(number / 10**digits) * 10**digits)
