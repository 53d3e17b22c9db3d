"""What ``epochcast predict`` says to a reader: where the answers come from, a table, and what they rest on."""

from __future__ import annotations

from collections.abc import Sequence

from epochcast.analyzer.answers.answer_schema import (
    CarbonAnswer,
    GpuOfJobAnswer,
    PredictionAnswer,
    TargetAnswer,
    WholeJobAnswer,
)
from epochcast.analyzer.answers.cycles import rate_cells, rate_header, rates, rates_text
from epochcast.analyzer.answers.emissions import OF_CARBON
from epochcast.analyzer.answers.gpu_use import use_lines
from epochcast.analyzer.tables import grams_text, interval_text, seconds_text, table
from epochcast.analyzer.words import TimeUnit, time_unit, with_prefix
from epochcast.regressor.prediction import basis

# Targets of which a table is followed by what each rests on.
_MOST_IN_FULL = 3


def prediction_text(answer: PredictionAnswer) -> str:
    """The whole answer as text; the notes name the targets whose memory is too small."""
    gpus, targets = answer.gpus, [target for target in answer.predictions if target.fits is not False]
    several = len(gpus) > 1
    lines = [_seen(gpu, f"GPU {place}, {gpu.trace}: " * several) for place, gpu in enumerate(gpus)]
    lines += [*_metrics(answer), *use_lines(answer), *answer.idle_at_boundaries, *_throughput(answer)]
    units = (time_unit(each.seconds for each in targets), time_unit(each.job.seconds for each in targets if each.job))
    rows = [_row(target, answer, *units) for target in targets]
    lines += [table(_header(answer, targets), rows)] if rows else []
    if targets and targets[0].job is not None:
        lines.append(job_text(answer.unit, targets[0].job))
    if any(target.energy for target in targets):
        lines.append(_energy_sentence(answer, targets))
    if _has_carbon(targets):
        lines.append(f"CO2e: {OF_CARBON}")
    in_full = len(answer.predictions) <= _MOST_IN_FULL
    if in_full:
        lines += _rests_on(targets, gpus)
    if not in_full:
        lines.append("what each answer relies on: --target NAME, or --json")
    return "\n".join(lines)


def _seen(gpu: GpuOfJobAnswer, which: str) -> str:
    where = f"{which}from {gpu.source}{' (simulated)' if gpu.simulated else ''}"
    metrics = ["no activity metric recorded"] if gpu.feature_set == "none" else []
    if gpu.epoch_s is None:
        return "; ".join([f"{where}: {_no_seconds(gpu)}, so ratios only", *metrics])
    kind = "" if gpu.cycle is None or gpu.cycle.kind == "unknown" else f" ({gpu.cycle.kind})"
    period = f"{seconds_text(gpu.epoch_s)} per {gpu.unit}{kind}"
    if gpu.epoch_s_low is not None:
        between = interval_text(gpu.epoch_s_low, gpu.epoch_s_high)
        period += f", {between}" if kind else f" ({between})"
    if gpu.epochs:
        period += f", median of {gpu.epochs}"
    left_out = [] if gpu.first_epoch_s is None else [f"the first {gpu.unit} ({seconds_text(gpu.first_epoch_s)})"]
    if gpu.stalls:
        left_out.append(f"{gpu.stalls} stall{'s' * (gpu.stalls > 1)} ({seconds_text(gpu.stall_s)} in all)")
    return "; ".join([f"{where}: {period}", *([f"left out: {' and '.join(left_out)}"] if left_out else []), *metrics])


def _no_seconds(gpu: GpuOfJobAnswer) -> str:
    if gpu.detection is None or gpu.detection.verdict != "epochs":
        return "no epochs found"
    return f"{gpu.detection.unit}s found with confidence {gpu.detection.confidence:.2f} only"


def _metrics(answer: PredictionAnswer) -> list[str]:
    """Which of the recorded metrics the answers rest on, and which they do not."""
    held = {name for gpu in answer.gpus for name in gpu.metrics}
    if "power" not in held:  # power_average replaces it
        held = {name.removesuffix("_average") for name in held}
    if not held:
        return []
    predictions = [*answer.predictions, *(prediction for gpu in answer.gpus for prediction in gpu.predictions)]
    used = {name for prediction in predictions for name in prediction.features}
    energy = ["power (energy)"] if any(target.energy for target in answer.predictions) and "power" not in used else []
    left = sorted(held - used - ({"power"} if energy else set()))
    only = f"; recorded only: {', '.join(left)}" if left else ""
    return [f"used: {', '.join([*sorted(used), *energy]) or 'no metric'}{only}"]


def _throughput(answer: PredictionAnswer) -> list[str]:
    step = next((cycle for cycle in (answer.detection.cycles if answer.detection else ()) if cycle.kind == "step"), None)
    known = any(rate is not None for rate in rates(answer).values())
    return [f"throughput here: {rates_text(answer, step.period_s)}"] if step is not None and known else []


def _header(answer: PredictionAnswer, targets: Sequence[TargetAnswer]) -> tuple[str, ...]:
    unit = answer.unit
    interval = (unit, "90 % interval") if unit else ("90 % interval",)
    header: tuple[str, ...] = ("gpu", "ratio", *interval, "rests on", *rate_header(rates(answer)))
    if len(answer.gpus) > 1:
        header += ("slowest", "spread")
    carbon = ("CO2e",) * _has_carbon(targets)
    if targets and targets[0].job is not None:
        return (*header, "job", "90 % interval", "energy", *carbon)
    return (*header, "power", f"energy per {unit}", *carbon) if unit else (*header, "power")


def _row(target: TargetAnswer, answer: PredictionAnswer, of_epoch: TimeUnit, of_job: TimeUnit) -> tuple[str, ...]:
    energy, job = target.energy, target.job
    row: tuple[str, ...] = (f"{target.gpus} x " * (target.gpus > 1) + target.gpu, _times(target.ratio))
    if target.seconds is None:
        row += (f"{_times(target.ratio_low)} to {_times(target.ratio_high)}",)
    else:
        row += (seconds_text(target.seconds, of_epoch), interval_text(target.low, target.high, of_epoch))
    row += (basis(target.route, target.support), *rate_cells(rates(target)))
    if len(answer.gpus) > 1:
        slowest = [gpu.trace for gpu in answer.gpus].index(target.trace or "")
        row += (f"GPU {slowest}", f"{100 * target.spread:.0f} %")
    if job is not None:
        times = (seconds_text(job.seconds, of_job), interval_text(job.seconds_low, job.seconds_high, of_job))
        return (*row, *times, _joules(job.joules), *_carbon(job, answer))
    row += ("-" if energy is None else f"{energy.watts:.0f} W",)
    if target.seconds is None:
        return row
    return (*row, _joules(None if energy is None else energy.joules), *_carbon(energy, answer))


def _has_carbon(targets: Sequence[TargetAnswer]) -> bool:
    """Whether the carbon intensity was given, and energy is known."""
    return any(known is not None and known.grams_co2e is not None for each in targets for known in (each.job, each.energy))


def _carbon(known: CarbonAnswer | None, answer: PredictionAnswer) -> tuple[str, ...]:
    return (grams_text(None if known is None else known.grams_co2e),) * _has_carbon(answer.predictions)


def _times(ratio: float) -> str:
    """Two places, or as many as show something."""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def job_text(unit: str | None, job: WholeJobAnswer) -> str:
    """What the length of a whole job is made of."""
    first = "the first in proportion to the source's" if job.first_epoch_s is not None else "the first like the others"
    stalls = f"; {seconds_text(job.stall_s)} of stalls, as often and as long as on the source" if job.stall_s else ""
    return f"job: {job.epochs} {unit}s, {first}{stalls}"


def _energy_sentence(answer: PredictionAnswer, targets: Sequence[TargetAnswer]) -> str:
    shown = [target.energy for target in targets if target.energy]
    ends = [
        (each.watts_low / each.watts, each.watts_high / each.watts)
        if each.joules is None or each.joules_low is None or each.joules_high is None
        else (each.joules_low / each.joules, each.joules_high / each.joules)
        for each in shown
    ]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    of = f"the {len(answer.gpus)} GPUs together" if len(answer.gpus) > 1 else "the GPU"
    what = f"energy: mean power of {of} x time" if answer.unit else f"power: mean power of {of}"
    return f"{what}; widest 90 % interval: {low:.2f} to {high:.2f} times the figure (all: --json)"


def _rests_on(targets: Sequence[TargetAnswer], gpus: Sequence[GpuOfJobAnswer]) -> list[str]:
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


def _joules(joules: float | None) -> str:
    return "-" if joules is None else with_prefix(joules, "J")
