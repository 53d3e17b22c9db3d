"""What ``epochcast recommend`` prints for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from epochcast.analyzer.jobs.decide import Decision, Experiment
from epochcast.analyzer.jobs.emissions import OF_CARBON
from epochcast.analyzer.jobs.gpu_use import use_lines
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.memory import GIB
from epochcast.analyzer.jobs.placement import Placement
from epochcast.analyzer.jobs.rank import MISSED, LeftOut, Objective, Ranking
from epochcast.analyzer.tables import grams_text, interval_text, seconds_text, table
from epochcast.analyzer.words import TimeUnit, count, money, time_unit

_HEADER = ("", "instance", "cloud", "region", "gpu", "time", "90 % interval", "cost", "90 % interval")
_MOST_ROWS = 20


def recommendation_text(job: Job) -> str:
    """What to do, the table of instances, and what is to know about it, a line each."""
    recommended, unit = job.recommendation, job.here.profile.unit or "epoch"
    assert recommended is not None
    decision, need, rows = recommended.decision, recommended.memory, recommended.placements
    lines = [recommended.verdict.text, f"why: {recommended.verdict.why}"]
    if rows:
        lines.append(f"{job_title(job)}, best {recommended.objective} first")
        shown = rows[:_MOST_ROWS]
        time = time_unit(row.seconds.value for row in shown if row.seconds)
        carbon = ["CO2e"] * any(row.grams_co2e is not None for row in shown)
        cells = [
            (
                *_row(row, time, memory_known=need is not None),
                *([grams_text(None if row.grams_co2e is None else row.grams_co2e.value)] if carbon else []),
                *_rent(row),
            )
            for row in shown
        ]
        rates = [] if job.throughput is None else [name for _, name in job.throughput.known]
        lines.append(table((*_HEADER, *carbon, "per hour", "priced", *rates), cells))
        if len(rows) > len(shown):
            lines.append(f"and {len(rows) - len(shown)} more (--json has all)")
        lines.append(
            "* no other instance is both faster and cheaper"
            + "; ~ from its data sheet: nothing was measured on this GPU" * any(row.prediction.by_data_sheet for row in shown)
            + "; stale: a price older than a year, ranked after all newer prices" * any(row.price_stale for row in shown)
            + "; ? may not fit" * (need is not None and any(row.fits is None for row in shown))
        )
        if carbon:
            lines.append(f"CO2e: {OF_CARBON}")
        if rows[0].job is not None:
            lines.append(_spent(rows[0], unit))
    lines += [*use_lines(job.use), *job.idle_at_boundaries, *_left_out(recommended.left_out)]
    if not rows:
        lines += _nearest(recommended.left_out)
    if need is not None:
        several = job.here.profile.gpus > 1
        lines.append(f"memory: {need.bytes / GIB:.1f} GiB{' on the GPU that has most in use' if several else ''}")
    if decision is not None:
        lines.append(_decision(decision, recommended.objective, unit))
    return "\n".join(lines)


def job_title(job: Job) -> str:
    """What is to run, in a few words."""
    here, epochs = job.here, job.epochs
    profile = here.profile
    what, gpus = f"ratios only ({here.no_seconds})", profile.gpus
    if profile.unit:
        what = f"{'one ' + profile.unit if epochs is None else count(epochs, profile.unit)}{here.kind}"
    return f"{what} of a job seen on {f'{gpus} x ' * (gpus > 1)}{profile.gpu}{' (simulated telemetry)' * profile.simulated}"


def _row(row: Placement, time: TimeUnit, *, memory_known: bool) -> tuple[str, ...]:
    count, number = row.instance.count, row.instances
    has = row.instance.gpu if count == number == 1 else f"{count} {row.instance.gpu}"
    gpu = f"{f'{row.gpus} of ' * (row.gpus < count * number)}{f'{number} x ' * (number > 1)}{has}"
    marks = "*" * row.pareto + "~" * row.prediction.by_data_sheet + "?" * (memory_known and row.fits is None)
    where = (marks, row.instance.name, row.instance.cloud, row.instance.region, gpu)
    if row.seconds is None or row.usd is None:
        ratio = row.prediction
        return (*where, f"{ratio.ratio:.2f}x", f"{ratio.ratio_low:.2f}x to {ratio.ratio_high:.2f}x", "-", "-")
    return (
        *where,
        seconds_text(row.seconds.value, time),
        interval_text(row.seconds.low, row.seconds.high, time),
        money(row.usd.value),
        f"{money(row.usd.low)} to {money(row.usd.high)}",
    )


def _rent(row: Placement) -> tuple[str, ...]:
    """What an hour costs, when that was the price, and what the job does in a second."""
    priced = f"{row.instance.date}{', stale' * row.price_stale}"
    return f"${row.usd_per_hour:,.3f}", priced, *([] if row.throughput is None else [rate for rate, _ in row.throughput.known])


def _spent(row: Placement, unit: str) -> str:
    """What the first one's time is made of, and what it is promised to keep."""
    job = row.job
    assert job is not None
    parts = [(f"{unit}s", job.epochs_s.value), ("stalls", job.stall_s), ("idling", job.idle_s)]
    parts += [("checkpoints", job.checkpoint_s), ("start-up", job.startup_s)]
    spent = " + ".join(f"{seconds_text(seconds)} of {name}" for name, seconds in parts if seconds)
    chances = [("deadline", row.deadline_chance), ("budget", row.budget_chance)]
    kept = "".join(
        f"; keeps the {name} with a chance of {100 * chance:.0f} %" for name, chance in chances if chance is not None
    )
    return f"{row.instance.name}: {spent}{kept}"


def _left_out(left_out: Sequence[LeftOut]) -> list[str]:
    """How many instances miss what; a note names the GPUs that are too small."""
    reasons = Counter(excluded.reason for excluded in left_out)
    return [f"left out: {count(number, 'instance')} that {MISSED[reason]}" for reason, number in reasons.items()]


def _nearest(left_out: Sequence[LeftOut]) -> list[str]:
    """How far the limits would have to be loosened: the fastest and the cheapest of what misses them."""
    rows = [excluded.placement for excluded in left_out if excluded.placement and excluded.reason in ("deadline", "budget")]
    missed = Ranking(tuple(rows), ())
    named = (("the fastest of them", missed.fastest), ("the cheapest", missed.cheapest))
    return [f"{name}: {_place(row)}" for name, row in named if row is not None]


def _place(row: Placement) -> str:
    assert row.seconds is not None and row.usd is not None  # or no limit could have been missed
    return f"{_short(row)}, {seconds_text(row.seconds.value)}, {money(row.usd.value)}"


def _short(row: Placement, more: str = "") -> str:
    """Instance and GPU (a host of Google takes any)."""
    return f"{row.instance.name} ({f'{row.gpus} x ' * (row.gpus > 1)}{row.instance.gpu}{more})"


def _decision(decision: Decision, objective: Objective, unit: str) -> str:
    better, lost = ("cheaper", "cost") if objective == "cost" else ("faster", "time")
    first = _short(decision.first)
    if decision.sure:
        return f"certain: no other instance may be {better} than {first}, by all 90 % intervals"
    rivals = ", ".join(_short(rival.placement, f", {100 * rival.chance:.0f} % chance") for rival in decision.rivals[:3])
    more = f" and {len(decision.rivals) - 3} more" if len(decision.rivals) > 3 else ""
    amount = "" if decision.regret is None else f" ({_amount(decision.regret, objective)})"
    lines = [
        f"not certain: {rivals}{more} may be {better} than {first}",
        f"on average, choosing {first} wastes {100 * decision.regret_share:.0f} % of the {lost}{amount}",
    ]
    if decision.experiment is not None:
        lines.append(_experiment(decision.experiment, objective, unit))
    elif decision.small:
        lines.append("no test run could resolve so small a difference")
    elif decision.regret is not None:
        lines.append(f"give the number of {unit}s (--epochs) to see which test run would help")
    return "\n".join(lines)


def _experiment(experiment: Experiment, objective: Objective, unit: str) -> str:
    """The test run that tells most, and whether it saves more than it costs."""
    run = experiment.run
    where, takes = (
        f"{count(run.epochs, unit)} on {_short(run.placement)}",
        f"{seconds_text(run.seconds)}, {money(run.usd)}",
    )
    saves = f"would save {_amount(experiment.saves, objective)} on average"
    return (
        f"to decide better, run {where}: {takes}; that {saves}"
        if experiment.worth
        else f"{where} ({takes}) {saves}: not worth it"
    )


def _amount(value: float, objective: Objective) -> str:
    return money(value) if objective == "cost" else seconds_text(value)
