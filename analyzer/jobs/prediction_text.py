"""What ``epochcast predict`` says to a reader: where the answers come from, a table, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from epochcast.analyzer.jobs.emissions import OF_CARBON
from epochcast.analyzer.jobs.gpu_use import use_lines
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.predict import Target
from epochcast.analyzer.jobs.sources import GpuOfJob
from epochcast.analyzer.tables import grams_text, seconds_text, table
from epochcast.analyzer.words import TimeUnit, between, time_unit, with_prefix
from epochcast.regressor.job import JobTime
from epochcast.regressor.prediction import Estimate

# Targets of which a table is followed by what each rests on.
_MOST_IN_FULL = 3


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
        lines.append(f"CO2e: {OF_CARBON}")
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
