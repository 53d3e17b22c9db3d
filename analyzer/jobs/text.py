"""What ``epochcast predict`` and ``epochcast recommend`` print for people."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from epochcast.analyzer.jobs.job import GpuUse, Job
from epochcast.analyzer.jobs.predict import GIB, Target, equal_work_text
from epochcast.analyzer.jobs.rank import MISSED, LeftOut, Placement, cost_of, figures_of, missed_text, time_of
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.jobs.sources import GpuOfJob
from epochcast.analyzer.tables import grams_text, seconds_text, table
from epochcast.analyzer.words import TimeUnit, between, count, length, money, plain, time_unit, with_prefix
from epochcast.regressor.job import JobTime
from epochcast.regressor.prediction import Estimate

_COLUMNS = 80
_MOST_ROWS = 8
_MOST_LINES = 3  # of assumptions
_REST = "--all shows the rest."

# Targets of which a table is followed by what each rests on.
_MOST_IN_FULL = 3

_OF_CARBON = "CO2e: the GPUs' energy times the carbon intensity of the electricity, without host and cooling"


def recommendation_text(job: Job, *, everything: bool = False) -> str:
    """What to do, the table of instances, and what it rests on.

    Args:
        job: with a recommendation.
        everything: every instance and region, and all that is known; else what fits 80 columns and a dozen lines.
    """
    recommended = job.recommendation
    assert recommended is not None
    verdict, rows = recommended.verdict, recommended.placements
    lines = [f"{verdict.text}.", _sentence(verdict.why)]
    if verdict.slower is not None:
        lines.append(f"If you can wait: {_amounts(verdict.slower, recommended.current)}.")
    best = verdict.best
    if job.throughput is not None and best is not None and best.throughput is not None:
        lines.append(f"Throughput: {job.throughput.sentence()} now; {best.throughput.sentence()} on {best.title}.")
    lines = [_fill(line) for line in lines if line]
    if not rows:
        return "\n".join([*lines, *_nearest(recommended.left_out)])
    cycle = job.here.cycle
    if everything or (cycle is not None and (cycle.boundary_idle_s or 0.0) > cycle.period_s / 2):  # no other GPU shortens it
        lines += [_fill(f"{sentence}.") for sentence in job.idle_at_boundaries]
    lines.append(_table(job, recommended, everything=everything))
    if everything:
        return "\n".join([*lines, *_spent(job, recommended), *use_lines(job.use), *job.notes])
    return "\n".join([*lines, _assumptions(job, recommended)])


def target_lines(job: Job, names: Sequence[str]) -> str:
    """The answer for each of these GPUs, a line: cost, time, 90 % range, evidence."""
    recommended = job.recommendation
    assert recommended is not None
    lines = []
    for name in names:
        row = next((row for row in recommended.placements if row.instance.gpu == name), None)
        missed = next((excluded for excluded in recommended.left_out if excluded.instance.gpu == name), None)
        if row is not None:
            lines.append(f"{_amounts(row)}; evidence: {row.prediction.basis}")
            continue
        why = "no instance in the price table has it" if missed is None else f"its instances {MISSED[missed.reason]}"
        there = next(target for target in job.predictions if target.gpu == name)
        time = f"{there.ratio:.2f} times the time ({there.ratio_low:.2f} to {there.ratio_high:.2f})"
        if there.job is not None:
            length = there.job.seconds
            time = f"{seconds_text(length.value)} ({seconds_text(length.low)} to {seconds_text(length.high)})"
        lines.append(f"{name}: {time}; {why}, so its cost is not known; evidence: {there.basis}")
    what = f"For {job_title(job)}:"
    return "\n".join([_fill(what), *lines, _assumptions(job, recommended)])


def job_title(job: Job) -> str:
    """What is to run, in a few words."""
    here, profile = job.here, job.here.profile
    what, gpus = f"ratios only ({here.no_seconds})", profile.gpus
    if profile.unit:
        what = f"{'one ' + profile.unit if job.epochs is None else count(job.epochs, profile.unit)}{here.kind}"
    return f"{what} of a job seen on {f'{gpus} x ' * (gpus > 1)}{profile.gpu}{' (simulated telemetry)' * profile.simulated}"


def _fill(line: str) -> str:
    """In lines of 80 columns, none of which begins with a sign of per cent."""
    return plain(textwrap.fill(line.replace(" %", "\N{NO-BREAK SPACE}%"), _COLUMNS))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _amounts(row: Placement, now: Placement | None = None) -> str:
    """``aws g5.xlarge (A10G), $6.99 ($4.11 to $11.90) in 15.8 h (9.28 to 26.9 h)``; without seconds in times of the present."""
    if row.seconds is None or row.usd is None:
        time, times, cost, costs = _figures(row, now, time_unit([]))
        return f"{row.title}: {cost} ({costs}){' the cost' * (now is not None)}, {time} ({times}) the time"
    unit, usd = time_unit([row.seconds.value]), row.usd
    time = f"{unit.of(row.seconds.value)} {unit.name} ({unit.of(row.seconds.low)} to {unit.of(row.seconds.high)})"
    return f"{row.title}: {money(usd.value)} ({money(usd.low)} to {money(usd.high)}) in {time}"


def _table(job: Job, recommended: Recommendation, *, everything: bool) -> str:
    best, now = recommended.verdict.best, recommended.current
    shown = [*recommended.placements, *([] if now is None or not everything else [now])]
    if not everything:
        first: dict[tuple[str, str, int], Placement] = {}
        for row in shown:  # of each cloud's GPUs the cheapest instance and region
            first.setdefault((row.instance.cloud, *row.hardware), row)
        kept = [row for row in first.values() if row is not best and (now is None or row.instance.offer != now.instance.offer)]
        pinned = [row for row in (now, None if best is now else best) if row is not None]
        value, _ = figures_of(recommended.objective)
        shown = sorted([*pinned, *kept[: _MOST_ROWS - len(pinned)]], key=lambda row: (row.price_stale, value(row)))
    first_shown = best or now or shown[0]
    time = time_unit([first_shown.seconds.value] if first_shown.seconds else [])
    header = ["", "instance", "GPU", time.name if shown[0].seconds else "time", "90 %", "cost", "90 %"]
    carbon = everything and any(row.grams_co2e is not None for row in shown)
    rates = [] if job.throughput is None or not everything else [unit for _, unit in job.throughput.known]
    header += rates + (["region", "per hour", "priced", *["CO2e"] * carbon] if everything else [])
    cells = []
    for row in shown:
        mark = "now" if row is now else "best" if row is best else ""
        cell = [mark, f"{row.instance.cloud} {row.instance.name}".strip(), _gpus(row), *_figures(row, now, time)]
        cell += [rate for rate, _ in row.throughput.known] if rates and row.throughput is not None else []
        if everything:
            cell += [row.instance.region, f"${row.usd_per_hour:,.3f}", f"{row.instance.date}{', stale' * row.price_stale}"]
            cell += [grams_text(None if row.grams_co2e is None else row.grams_co2e.value)] * carbon
        cells.append(cell)
    return table(header, cells, columns=None if everything else _COLUMNS)


def _gpus(row: Placement) -> str:
    total = row.instance.count * row.instances
    several, each = f"{row.instances} x " * (row.instances > 1), f"{row.instance.count} " * (row.instance.count > 1)
    return f"{f'{row.gpus} of ' * (row.gpus < total)}{several}{each}{row.instance.gpu}"


def _figures(row: Placement, now: Placement | None, time: TimeUnit) -> tuple[str, str, str, str]:
    """Time and cost with their ranges; in times of the present where there are no seconds."""
    if row.seconds is not None and row.usd is not None:
        seconds, usd = row.seconds, row.usd
        return (
            time.of(seconds.value),
            f"{time.of(seconds.low)}-{time.of(seconds.high)}" if seconds.low < seconds.high else "-",
            f"{'~' * row.prediction.by_data_sheet}{money(usd.value)}",
            f"{money(usd.low)}-{money(usd.high).removeprefix('$')}" if usd.low < usd.high else "-",
        )
    ratio = row.prediction
    time_there = (f"{ratio.ratio:.2f}x", _range(ratio.ratio_low, ratio.ratio_high))
    if now is None:  # USD for the work of an hour of the present
        factor, form = row.usd_per_hour, "${:.2f}/h"
    else:
        factor, form = row.usd_per_hour / now.usd_per_hour, "{:.2f}x"
    cost = f"{'~' * ratio.by_data_sheet}{form.format(factor * ratio.ratio)}"
    return (*time_there, cost, _range(factor * ratio.ratio_low, factor * ratio.ratio_high))


def _range(low: float, high: float) -> str:
    return f"{low:.2f}-{high:.2f}"


def _assumptions(job: Job, recommended: Recommendation) -> str:
    """As many of them as fit."""
    text = ""
    for sentence in _sentences(job, recommended):
        longer = f"{text} {sentence}".strip()
        if len(textwrap.wrap(f"{longer} {_REST}", _COLUMNS)) <= _MOST_LINES:
            text = longer
    return _fill(f"{text} {_REST}".strip())


def _sentences(job: Job, recommended: Recommendation) -> Iterable[str]:
    """What the answer rests on: what is assumed, what nobody knows, what was left out; a sentence each."""
    on, profile, rows = recommended.on, job.here.profile, recommended.placements
    yield from (f"{sentence}." for sentence in job.not_counted)
    yield from (_sentence(note) for note in job.notes if note.startswith(("spot:", "if it were free")))
    assumed = []
    if recommended.current is not None and on.share < 1 and on.instance is not None:
        assumed.append(f"now costs its {profile.gpus} of {on.instance.count} GPUs")
    if any(row.gpus != profile.gpus for row in rows):
        assumed.append(
            "all GPUs of an instance, each with the whole model" + equal_work_text(profile.unit).replace("; times are", ",")
        )
    if not recommended.limits.clouds and len({row.instance.cloud for row in rows}) > 1:
        assumed.append("any cloud (--cloud)")
    assumed.append("the same batch on each GPU")
    yield f"Assumed: {'; '.join(assumed)}."
    unknown = ["precision (--precision)"] * (len(job.precision) > 1) + ["type (--type)"] * (profile.type is None)
    unknown += ["memory (--memory)"] * (recommended.memory is None)
    unknown += ["the present cost (--price-now)"] * (recommended.current is None)
    if unknown:
        yield f"Not known: {', '.join(unknown)}."
    if any(row.prediction.by_data_sheet for row in rows):
        yield "~ by its data sheet: not measured."
    if recommended.left_out:
        yield f"Left out: {missed_text(recommended.left_out)}."


def _spent(job: Job, recommended: Recommendation) -> list[str]:
    """What the time of the best is made of, what it keeps, and the memory it takes."""
    lines, best, unit = [], recommended.verdict.best, job.here.profile.unit or "epoch"
    if any(row.grams_co2e is not None for row in recommended.placements):
        lines.append(_OF_CARBON)
    lines.append("~ by its data sheet: nothing was measured on this GPU")
    if best is not None and best.job is not None:
        parts = [(f"{unit}s", best.job.epochs_s.value), ("stalls", best.job.stall_s)]
        parts += [("checkpoints", best.job.checkpoint_s), ("start-up", best.job.startup_s)]
        spent = " + ".join(f"{seconds_text(seconds)} of {name}" for name, seconds in parts if seconds)
        chances = [("deadline", best.deadline_chance), ("budget", best.budget_chance)]
        kept = "".join(
            f"; keeps the {name} with a chance of {100 * chance:.0f} %" for name, chance in chances if chance is not None
        )
        lines.append(f"{best.instance.name}: {spent}{kept}")
    if recommended.memory is not None:
        lines.append(f"memory: {recommended.memory.bytes / GIB:.1f} GiB on the GPU that has most in use")
    return lines


def _nearest(left_out: Sequence[LeftOut]) -> list[str]:
    """How far the limits would have to be loosened: the fastest and the cheapest of what misses them."""
    rows = [excluded.placement for excluded in left_out if excluded.placement and excluded.reason in ("deadline", "budget")]
    if not rows:
        return []
    fastest = min(rows, key=lambda row: (time_of(row), cost_of(row)))
    return [f"the fastest of them: {_amounts(fastest)}", f"the cheapest: {_amounts(min(rows, key=cost_of))}"]


def prediction_text(job: Job) -> str:
    """The whole answer as text; the notes name the targets whose memory is too small."""
    gpus, targets = job.gpus, [target for target in job.predictions if target.fits is not False]
    several, unit = len(gpus) > 1, job.here.profile.unit
    lines = [_seen(gpu, f"GPU {place}, {gpu.name}: " * several) for place, gpu in enumerate(gpus)]
    lines += [*_metrics(job), *use_lines(job.use), *job.idle_at_boundaries]
    lines += [] if job.throughput is None else [f"throughput here: {job.throughput.sentence()}"]
    units = (time_unit(each.seconds for each in targets), time_unit(each.job.seconds.value for each in targets if each.job))
    rows = [_row(target, job, *units) for target in targets]
    lines += [table([name for name, _ in rows[0]], [[cell for _, cell in row] for row in rows])] if rows else []
    if targets and targets[0].job is not None:
        lines.append(job_text(unit, targets[0].job))
    if any(target.energy for target in targets):
        lines.append(_energy_sentence(job, targets))
    if _has_carbon(targets):
        lines.append(_OF_CARBON)
    if len(job.predictions) <= _MOST_IN_FULL:
        lines += _rests_on(targets, gpus)
    else:
        lines.append("what each answer relies on: --target NAME, or --json")
    return "\n".join(lines)


def _seen(gpu: GpuOfJob, which: str) -> str:
    profile = gpu.profile
    where = f"{which}from {profile.gpu}{' (simulated)' if profile.simulated else ''}"
    metrics = ["no activity metric recorded"] if profile.feature_set == "none" else []
    if profile.epoch_s is None:
        return "; ".join([f"{where}: {gpu.no_seconds}, so ratios only", *metrics])
    period = f"{seconds_text(profile.epoch_s)} per {profile.unit}{gpu.kind}"
    if profile.epoch_s_low is not None:
        interval = between(profile.epoch_s_low, profile.epoch_s_high)
        period += f", {interval}" if gpu.kind else f" ({interval})"
    if profile.epochs and profile.unit != "step":
        period += f", median of {profile.epochs}"
    left_out = [] if profile.first_epoch_s is None else [f"the first {profile.unit} ({seconds_text(profile.first_epoch_s)})"]
    if profile.stalls:
        left_out.append(f"{profile.stalls} stall{'s' * (profile.stalls > 1)} ({seconds_text(profile.stall_s)} in all)")
    return "; ".join([f"{where}: {period}", *([f"left out: {' and '.join(left_out)}"] if left_out else []), *metrics])


def _metrics(job: Job) -> list[str]:
    """Which of the recorded metrics the answers rest on, and which they do not."""
    held = {name for gpu in job.gpus for name in gpu.profile.metrics}
    if "power" not in held:  # power_average replaces it
        held = {name.removesuffix("_average") for name in held}
    if not held:
        return []
    predictions = [*job.predictions, *(prediction for gpu in job.gpus for prediction in gpu.predictions)]
    used = {name for prediction in predictions for name in prediction.features}
    energy = ["power (energy)"] if any(target.energy for target in job.predictions) and "power" not in used else []
    left = sorted(held - used - ({"power"} if energy else set()))
    only = f"; recorded only: {', '.join(left)}" if left else ""
    return [f"used: {', '.join([*sorted(used), *energy]) or 'no metric'}{only}"]


def _row(target: Target, job: Job, of_epoch: TimeUnit, of_job: TimeUnit) -> list[tuple[str, str]]:
    """The columns of the table, each with its cell."""
    unit, energy, whole, interval = job.here.profile.unit, target.energy, target.job, "90 % interval"
    row = [("gpu", f"{target.gpus} x " * (target.gpus > 1) + target.gpu), ("ratio", _times(target.ratio))]
    if unit is None:
        row.append((interval, f"{_times(target.ratio_low)} to {_times(target.ratio_high)}"))
    else:
        row += [(unit, seconds_text(target.seconds, of_epoch)), (interval, between(target.low, target.high, of_epoch))]
    row.append(("rests on", target.basis))
    row += [] if target.throughput is None else [(name, rate) for rate, name in target.throughput.known]
    if len(job.gpus) > 1:
        row += [("slowest", f"GPU {target.slowest}"), ("spread", f"{100 * target.spread:.0f} %")]
    if whole is not None:
        length = whole.seconds
        row += [("job", seconds_text(length.value, of_job)), (interval, between(length.low, length.high, of_job))]
        row.append(("energy", _joules(target.job_joules)))
    else:
        row.append(("power", "-" if energy is None else f"{energy.watts.value:.0f} W"))
        row += [(f"energy per {unit}", _joules(None if energy is None else energy.joules))] if unit else []
    carbon = grams_text(None if target.grams_co2e is None else target.grams_co2e.value)
    return [*row, *[("CO2e", carbon)] * (_has_carbon(job.predictions) and unit is not None)]


def _has_carbon(targets: Sequence[Target]) -> bool:
    """Whether the carbon intensity was given, and energy is known."""
    return any(target.grams_co2e is not None for target in targets)


def _times(ratio: float) -> str:
    """Two places, or as many as show something."""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def job_text(unit: str | None, job: JobTime) -> str:
    """What the length of a whole job is made of."""
    first = "the first in proportion to the source's" if job.first_epoch_s is not None else "the first like the others"
    stalls = f"; {seconds_text(job.stall_s)} of stalls, as often and as long as on the source" if job.stall_s else ""
    return f"job: {job.epochs} {unit}s, {first}{stalls}"


def _energy_sentence(job: Job, targets: Sequence[Target]) -> str:
    shown = [target.energy.joules or target.energy.watts for target in targets if target.energy]
    low, high = min(each.low / each.value for each in shown), max(each.high / each.value for each in shown)
    of = f"the {len(job.gpus)} GPUs together" if len(job.gpus) > 1 else "the GPU"
    what = f"energy: mean power of {of} x time" if job.here.profile.unit else f"power: mean power of {of}"
    return f"{what}; widest 90 % interval: {low:.2f} to {high:.2f} times the figure (all: --json)"


def _rests_on(targets: Sequence[Target], gpus: Sequence[GpuOfJob]) -> list[str]:
    """Each reason once, with the GPUs that it is true of; below, of a job of several GPUs, each one's answer."""
    reasons: dict[str, list[str]] = {}
    for target in targets:
        used = f"; used {', '.join(target.features)}" if target.features else ""
        reasons.setdefault(f"{target.why}{used}", []).append(target.gpu)
    lines = [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    for target in targets:
        for place, gpu in enumerate(gpus):
            lines += [
                f"{target.gpu}, GPU {place}: {each.ratio:.2f}x, {seconds_text(each.seconds)}"
                for each in gpu.predictions
                if each.gpu == target.gpu
            ]
    return lines


def _joules(joules: Estimate | None) -> str:
    return "-" if joules is None else with_prefix(joules.value, "J")


def use_lines(use: GpuUse) -> list[str]:
    """A line on each that is known and worth it."""
    lines = [] if use.ofu is None else [f"tensor cores: {100 * use.ofu:.0f} % of their peak used (OFU)"]
    if use.held_idle_s:
        cost = "" if use.held_idle_usd is None else f", {money(use.held_idle_usd)}"
        lines.append(f"held but idle: {length(use.held_idle_s)}{cost}")
    return lines if use.reduced_clock is None else [*lines, use.reduced_clock]
