"""What ``epochcast predict`` says to a reader: where the answers come from, a table, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...regressor import Prediction, Profile
from ...regressor.explain import DATA_SHEETS, Effect
from ...regressor.job import JobTime
from ...regressor.prediction import Estimate, basis
from ..answers.cycles import RATES, Throughput, rates
from ..answers.job_result import JobResult
from ..answers.predictions import Answer
from ..answers.sources import Source
from ..tables import interval_text, seconds_text, table, with_prefix
from ..words import TimeUnit, number, time_unit


def sentences(result: JobResult, explanations: Mapping[str, Sequence[Effect]] | None, *, in_full: bool) -> str:
    """The whole answer as text; ``in_full`` adds what each prediction rests on."""
    sources, answers, rate = result.sources, result.answers, result.throughput
    lines = [_seen(source, f"GPU {number}, {source.name}: " * (len(sources) > 1)) for number, source in enumerate(sources)]
    lines += _metrics(sources, answers)
    lines += [*result.idle_at_boundaries, *([] if rate is None else [f"throughput here: {rate.sentence()}"])]
    answers = tuple(answer for answer in answers if answer.fits is not False)  # the notes name the others
    units = (time_unit(a.prediction.seconds for a in answers), time_unit(a.job.seconds.value for a in answers if a.job))
    rows = [_row(answer, rate, *units, several=len(sources) > 1) for answer in answers]
    lines += [table(_header(sources, answers, rate), rows)] if rows else []
    lines += _job_sentence(sources, answers)
    if any(answer.energy for answer in answers):
        lines.append(_energy_sentence(sources, answers))
    if in_full:
        lines += _rests_on(answers, sources)
    for gpu, effects in (explanations or {}).items():
        lines += [f"{gpu}: what makes the ratio", *map(_effect, effects)] if effects else []
    if not in_full:
        lines.append("what an answer rests on: --target NAME, or --json")
    return "\n".join(lines)


def _seen(source: Source, which: str) -> str:
    profile = source.profile
    where = f"{which}from {profile.gpu}{' (simulated)' if profile.simulated else ''}"
    metrics = ["no activity metric recorded"] if profile.feature_set == "none" else []
    if profile.epoch_s is None:
        return "; ".join([f"{where}: {source.no_seconds}, so ratios only", *metrics])
    found = f"{seconds_text(profile.epoch_s)} per {profile.unit}{source.kind}"
    if profile.epoch_s_low is not None:
        between = interval_text(profile.epoch_s_low, profile.epoch_s_high)
        found += f", {between}" if source.kind else f" ({between})"
    if profile.epochs:
        found += f", median of {profile.epochs}"
    first = profile.first_epoch_s
    left_out = [] if first is None else [f"the first {profile.unit} ({seconds_text(first)})"]
    if profile.stalls:
        left_out.append(f"{profile.stalls} stall{'s' * (profile.stalls > 1)} ({seconds_text(profile.stall_s)} in all)")
    return "; ".join([f"{where}: {found}", *([f"left out: {' and '.join(left_out)}"] if left_out else []), *metrics])


def _metrics(sources: Sequence[Source], answers: Sequence[Answer]) -> list[str]:
    """Which of the recorded metrics the answers rest on, and which they do not."""
    held = {name for source in sources for name in source.profile.metrics}
    if "power" not in held:  # power_average stands in for it
        held = {name.removesuffix("_average") for name in held}
    if not held:
        return []
    used = {name for answer in answers for prediction in answer.predictions for name in prediction.features}
    energy = ["power (energy)"] if any(answer.energy for answer in answers) and "power" not in used else []
    left = sorted(held - used - ({"power"} if energy else set()))
    only = f"; recorded only: {', '.join(left)}" if left else ""
    return [f"used: {', '.join([*sorted(used), *energy]) or 'no metric'}{only}"]


def rate_cells(rate: Throughput | None, ratio: float | None = None) -> list[str]:
    """Units of the rates that are known, for a table's header; with ``ratio`` the rates where the job takes so much longer."""
    if rate is None:
        return []
    known = {key: value for key, value in rates(rate, ratio or 1.0).items() if value is not None}
    return [RATES[key] if ratio is None else number(value) for key, value in known.items()]


def _header(sources: Sequence[Source], answers: Sequence[Answer], rate: Throughput | None) -> tuple[str, ...]:
    unit = sources[0].profile.unit
    interval = (unit, "90 % interval") if unit else ("90 % interval",)
    header: tuple[str, ...] = ("gpu", "ratio", *interval, "rests on", *rate_cells(rate))
    if len(sources) > 1:
        header += ("slowest", "spread")
    if answers and answers[0].job is not None:
        return (*header, "job", "90 % interval", "energy")
    return (*header, "power", f"energy per {unit}") if unit else (*header, "power")


def _row(answer: Answer, rate: Throughput | None, of_epoch: TimeUnit, of_job: TimeUnit, *, several: bool) -> tuple[str, ...]:
    prediction, energy = answer.prediction, answer.energy
    number = f"{prediction.gpus} x " if prediction.gpus > 1 else ""
    row: tuple[str, ...] = (number + prediction.gpu, _times(prediction.ratio))
    if prediction.seconds is None:
        row += (f"{_times(prediction.ratio_low)} to {_times(prediction.ratio_high)}",)
    else:
        row += (seconds_text(prediction.seconds, of_epoch), interval_text(prediction.low, prediction.high, of_epoch))
    row += (basis(prediction.route, prediction.support), *rate_cells(rate, prediction.ratio))
    if several:
        row += (f"GPU {answer.slowest}", f"{100 * answer.spread:.0f} %")
    if answer.job is not None:
        seconds = answer.job.seconds
        times = (seconds_text(seconds.value, of_job), interval_text(seconds.low, seconds.high, of_job))
        return (*row, *times, _joules(answer.job_joules))
    row += ("-" if energy is None else f"{energy.watts.value:.0f} W",)
    return row if prediction.seconds is None else (*row, _joules(None if energy is None else energy.joules))


def _times(ratio: float) -> str:
    """Two places, or as many as show something."""
    return f"{ratio:.2f}x" if ratio >= 0.1 else f"{ratio:.2g}x"


def _job_sentence(sources: Sequence[Source], answers: Sequence[Answer]) -> list[str]:
    if not answers or answers[0].job is None:
        return []
    return [job_text(sources[answers[0].slowest].profile, answers[0].job)]


def job_text(profile: Profile, job: JobTime) -> str:
    """What the length of a whole job is made of."""
    first = "the first one in proportion to the source's" if job.first_epoch_s is not None else "the first one like the others"
    stalls = f"; {seconds_text(job.stall_s)} of stalls, as often and as long as on the source" if job.stall_s else ""
    return f"job: {job.epochs} {profile.unit}s, {first}{stalls}"


def _energy_sentence(sources: Sequence[Source], answers: Sequence[Answer]) -> str:
    shown = [answer.energy.joules or answer.energy.watts for answer in answers if answer.energy]
    low, high = min(one.low / one.value for one in shown), max(one.high / one.value for one in shown)
    of = f"the {len(sources)} GPUs together" if len(sources) > 1 else "the GPU"
    what = f"energy: mean power of {of} x time" if sources[0].profile.unit else f"power: mean power of {of}"
    return f"{what}; 90 % interval where it is widest: {low:.2f} to {high:.2f} times the figure (each one's: --json)"


def _rests_on(answers: Sequence[Answer], sources: Sequence[Source]) -> list[str]:
    """Each reason once, with the GPUs that it is true of; below, of a job of several GPUs, each one's answer."""
    gpus: dict[str, list[str]] = {}
    for answer in answers:
        prediction: Prediction = answer.prediction
        used = f"; used {', '.join(prediction.features)}" if prediction.features else ""
        gpus.setdefault(f"{prediction.why}{used}", []).append(prediction.gpu)
    lines = [f"{', '.join(names)}: {why}" for why, names in gpus.items()]
    if len(sources) > 1:
        lines += [
            f"{answer.prediction.gpu}, GPU {number}: {one.ratio:.2f}x, {seconds_text(one.seconds)}"
            for answer in answers
            for number, one in enumerate(answer.predictions)
        ]
    return lines


def _effect(effect: Effect) -> str:
    """One factor of a ratio, with what a typical job on the same GPU shows."""
    if effect.value is None or effect.typical is None:
        return f"  x{effect.factor:.3f}  {effect.name}{', for a typical job on the source' * (effect.name == DATA_SHEETS)}"
    seen, typical = (
        f"{value:.2f}" if effect.unit == "ratio" else with_prefix(value, effect.unit)
        for value in (effect.value, effect.typical)
    )
    return f"  x{effect.factor:.3f}  {effect.name} {seen}, typical {typical}"


def _joules(joules: Estimate | None) -> str:
    return "-" if joules is None else with_prefix(joules.value, "J")
