"""The answer to a job, in one place: the sources of its GPUs in, everything that commands, HTTP, service and fleet show out.

Telemetry becomes sources in `sources` (a command, an upload) or `summary` (the live service and a fleet, which stream). What is
shown of a `Job`, and how, is each caller's own; as JSON it is the same document everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Literal

from pydantic import TypeAdapter

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.cycles import LEAST_SHARE, NO_STEP, Throughput, open_text, throughput, waits
from epochcast.analyzer.jobs.predict import (
    Target,
    answer_notes,
    comparable,
    count_gpus,
    predict_job,
    resolve_targets,
    sensor_notes,
)
from epochcast.analyzer.jobs.prices import Instance, Offer, Rented, usd_per_hour
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import Work
from epochcast.analyzer.jobs.recommend import Recommendation, recommend_job
from epochcast.analyzer.jobs.sources import (
    GpuOfJob,
    Source,
    find_slowest,
    without_seconds,
)
from epochcast.analyzer.words import count, length, plain
from epochcast.detector import Cycle
from epochcast.regressor import Catalog, Profile
from epochcast.regressor.pipelines import Pipeline, Predictor
from epochcast.regressor.precision import Precision, likely_precisions, overall_flop_utilization

_REASONS = {
    "power_cap": "power cap",
    "thermal": "heat",
    "hardware_thermal": "heat, by the hardware",
    "power_brake": "power supply",
    "board_limit": "limit of the board",
    "reliability": "limit of the voltage",
    "clock_setting": "a clock that somebody set",
}


@dataclass(frozen=True)
class GpuUse:
    """Of all GPUs of a job; None for each that their telemetry does not show.

    Attributes:
        ofu: share of their peak of matrix products, 0..1, mean.
        held_idle_s: seconds of the job in which their memory was held and nothing ran, sum.
        held_idle_usd: what these cost; None also where the price of what they run on is not known.
        throttled: reason -> share of time in which it held the clocks down, 0..1, mean.
        reduced_clock: a sentence on the reason that holds them down most; None below 1 % of the time.
    """

    ofu: float | None
    held_idle_s: float | None
    held_idle_usd: float | None
    throttled: dict[str, float] | None
    reduced_clock: str | None


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job on other GPUs, and where to run it.

    Attributes:
        schema: of this document.
        pipeline: how the predictions were made: ours, or the paper's.
        simulated: no hardware was read.
        gpus: its GPUs that count; not those that idle, or show another cycle.
        not_counted: a sentence on each of these.
        slowest: which of them takes longest and so sets the pace, from 0.
        precision: how likely the job computes in each, adding up to 1.
        throughput: of the job here; None unless the samples or tokens of a step were given and steps show.
        use: how well it uses its GPUs.
        idle_at_boundaries: a sentence on each kind of boundary at which the job waits, with what that costs.
        epochs: epochs, cycles or steps of the whole job, which answers are of; None: of one.
        predictions: one for each target, fastest first.
        recommendation: None if it was not requested.
        notes: a sentence on each thing that a reader should know.
    """

    schema: Literal["epochcast.job/v2"] = "epochcast.job/v2"
    pipeline: Pipeline
    simulated: bool
    gpus: tuple[GpuOfJob, ...]
    not_counted: tuple[str, ...]
    slowest: int
    precision: Mapping[Precision, float]
    throughput: Throughput | None
    use: GpuUse
    idle_at_boundaries: tuple[str, ...]
    epochs: int | None
    predictions: tuple[Target, ...]
    recommendation: Recommendation | None
    notes: tuple[str, ...]

    @property
    def here(self) -> GpuOfJob:
        """The GPU that sets the pace."""
        return self.gpus[self.slowest]

    @property
    def status(self) -> int:
        """Exit code of a command: 1 where no target's memory holds the job, or no instance qualifies."""
        if self.recommendation is not None:
            return 0 if self.recommendation.placements else 1
        return 0 if any(target.fits is not False for target in self.predictions) else 1


_JOB = TypeAdapter(Job)


def job_json(job: Job, *, indent: int | None = None) -> bytes:
    """A job as JSON text."""
    return _JOB.dump_json(job, indent=indent)


def answer_job(
    read: Sequence[Source],
    predictor: Predictor,
    instances: Sequence[Instance],
    question: JobQuestion,
    *,
    recommend: bool = False,
    work: Work | None = None,
    gpus: int | None = None,
    on: Rented | None = None,
    free: Mapping[Offer, int] | None = None,
    of_job: Sequence[str] = (),
) -> Job:
    """Predict a job on other GPUs, and rank what can be rented for it.

    Args:
        read: one source per GPU of the job that says something.
        predictor: how to predict.
        instances: what can be rented, and what it costs.
        question: what to answer.
        recommend: rank what can be rented for it, too.
        work: the whole job, where more is known of it than the question says.
        gpus: of the job; None: as many as have a source, or as a profile says.
        on: what it runs on; None: what the question says, else the cheapest with its GPU is assumed.
        free: how many of each offer can be had; None: all of them.
        of_job: sentences on how the sources came to be.

    Raises:
        InputError: no source, all of them idle, not comparable, a GPU that is not known, limits that cannot be kept, or a whole
            job without seconds of an epoch.
    """
    if not read:
        raise InputError("a prediction needs the profile of at least one GPU; send one")
    kept, not_counted, doubts = comparable(read)
    number = count_gpus(read, gpus) if gpus else max([len(kept), *(source.profile.gpus for source in kept)])
    sources = [replace(source, profile=replace(source.profile, gpus=number)) for source in kept]
    catalog = predictor.catalog
    if own_gpus := {source.gpu.name: source.gpu for source in sources if source.gpu.name not in catalog}:
        catalog = Catalog([*catalog.values(), *own_gpus.values()])  # that only the traces know
        predictor = replace(predictor, catalog=catalog)
    slowest = find_slowest(sources)
    place_of_slowest = sources.index(slowest)
    per_step = question.samples_per_step, question.tokens_per_step
    if work is None and question.epochs is not None:
        work = Work(question.epochs, question.startup_s or 0.0)
    cycles = () if slowest.detection is None else slowest.detection.cycles
    if slowest.detection is None and slowest.profile.unit == "step" and slowest.profile.epoch_s is not None:
        cycles = (Cycle("step", slowest.profile.epoch_s, 1.0, "the profile's unit", None, None),)
    rate = throughput(cycles, *per_step)
    notes = [*said_once([(source.name, note) for source in sources for note in source.notes], len(read)), *of_job]
    notes += [*not_counted, *doubts, *([NO_STEP] if rate is None and any(per_step) else [])]
    if work is not None:
        _check_work(work, slowest)
        work = replace(work, name=work.name or count(work.epochs, slowest.unit))
    untimed = None
    if recommend and work is None:
        work, untimed = seen_work(slowest, phrase="the {} seen" if slowest.detection is None else "the {} in this log")
        if untimed:
            sources = [replace(source, profile=without_seconds(source.profile)) for source in sources]
            slowest = sources[place_of_slowest]
    names, of_names = (None, []) if question.targets is None else resolve_targets(catalog, question.targets)
    notes += of_names
    targets, of_gpus = predict_job(
        predictor, sources, None if recommend else names, None if work is None else work.epochs, question, rate
    )
    notes += answer_notes(predictor, sources, slowest, targets, question)
    recommendation, hourly_usd, usd_per_gpu_hour = None, None, None
    if not recommend:
        notes += sensor_notes(sources, targets, catalog)
    else:
        recommendation, of_renting = recommend_job(
            sources, targets, predictor, instances, question, names, on=on, free=free, work=work, rate=rate, untimed=untimed
        )
        notes += of_renting
        if not recommendation.on.assumed:
            usd_per_gpu_hour = recommendation.on.usd_per_gpu_hour
            hourly_usd = None if recommendation.current is None else recommendation.current.usd_per_hour
    if waits(cycles) and hourly_usd is None:
        hourly_usd = usd_per_hour([source.gpu.name for source in read], instances)
    several = len(sources) > 1
    return Job(
        pipeline=predictor.pipeline,
        simulated=any(source.profile.simulated for source in sources),
        gpus=tuple(source.answered(own if several else ()) for source, own in zip(sources, of_gpus, strict=True)),
        not_counted=tuple(map(plain, not_counted)),
        slowest=place_of_slowest,
        precision=likely_precisions(slowest.profile, slowest.gpu)[0],
        throughput=rate,
        use=use_of(sources, [source.profile for source in read], usd_per_gpu_hour),
        idle_at_boundaries=tuple(map(plain, waits(cycles, hourly_usd))),
        epochs=None if work is None else work.epochs,
        predictions=tuple(targets),
        recommendation=recommendation,
        notes=tuple(map(plain, notes)),
    )


def _check_work(work: Work, job: Source) -> None:
    """Raises InputError for a whole job of which the telemetry does not show what is counted."""
    if job.cycle is not None and job.cycle.k_open:
        raise InputError(
            f"--epochs {work.epochs} cannot be costed: the telemetry shows a cycle of {length(job.cycle.period_s)}"
            f"{open_text(job.cycle)}; leave out --epochs for the cost of equal work"
        )
    if job.profile.epoch_s is None:
        raise InputError(
            f"{job.no_seconds}, so there are only ratios, but the time of the whole job needs seconds: record more of the "
            "job, or leave out the number of epochs"
        )


def seen_work(
    job: Source, *, epochs: int = 0, ran_s: float = 0.0, phrase: str = "the {} in this log"
) -> tuple[Work | None, str | None]:
    """What was seen of a job, to ask for it again; or None, and why it has no cost: what is not shown to be training has none.

    Args:
        job: the GPU that sets its pace.
        epochs, ran_s: how many it had, and seconds for which it ran, where more is known than its profile covers.
        phrase: what to call it.
    """
    profile, cycle = job.profile, job.cycle
    if profile.epoch_s is None:
        return None, f"{job.no_seconds}, so there is no cost of a job: record until epochs show"
    if profile.inference:
        return None, "inference has no epochs, so there is no cost of a job"
    if profile.unit == "cycle" and (cycle is None or cycle.kind == "unknown" or cycle.k_open):
        which = f"a cycle of {length(profile.epoch_s)}{'' if cycle is None else open_text(cycle)} is not shown to be an epoch"
        return None, f"{which}, so there is no cost of a job"
    covered = profile.epochs + profile.first_epoch_excluded + profile.stalls
    ran = round(ran_s / profile.epoch_s) if profile.unit == "step" else epochs
    seen = max(covered, int(float(f"{ran:.2g}")) if ran >= 100 else ran, 1)
    return Work(seen, name=phrase.format(count(seen, job.unit))), None


def said_once(said: Sequence[tuple[str, str]], gpus: int) -> list[str]:
    """Each sentence once, with the names of the GPUs that it is true of; without names where it is true of all ``gpus``.

    Args:
        said: name of a GPU, sentence on it.
        gpus: how many the job has.
    """
    lines: list[str] = []
    for sentence, number in Counter(sentence for _, sentence in said).items():
        names = [name for name, text in said if text == sentence]
        more = f" and {number - 3} more" if number > 3 else ""
        lines.append(sentence if number >= gpus else f"{', '.join(names[:3])}{more}: {sentence}")
    return lines


def use_of(sources: Sequence[Source], profiles: Sequence[Profile | None], usd_per_gpu_hour: float | None) -> GpuUse:
    """Return how well a job uses its GPUs.

    Args:
        sources: its GPUs that count.
        profiles: of all of its GPUs, also those that do nothing; None for an unknown one, and then nobody knows the sum.
        usd_per_gpu_hour: each GPU's share of the price of what it runs on; None where that is not known.
    """
    used = [ofu for source in sources if (ofu := overall_flop_utilization(source.profile, source.gpu)) is not None]
    idle = [None if profile is None else profile.held_idle_s for profile in profiles]
    known = [seconds for seconds in idle if seconds is not None]
    held_idle_s = sum(known) if known and len(known) == len(idle) else None
    shares: dict[str, list[float]] = {}
    for source in sources:
        for reason, share in (source.profile.throttled or {}).items():
            shares.setdefault(reason, []).append(share)
    throttled = {reason: mean(each) for reason, each in shares.items()} or None
    return GpuUse(
        ofu=mean(used) if used else None,
        held_idle_s=held_idle_s,
        held_idle_usd=None if held_idle_s is None or usd_per_gpu_hour is None else held_idle_s / 3600 * usd_per_gpu_hour,
        throttled=throttled,
        reduced_clock=_reduced_clock(sources, throttled),
    )


def _reduced_clock(sources: Sequence[Source], throttled: dict[str, float] | None) -> str | None:
    """``11 % of an epoch at reduced clock: power cap (SM clock at 91 % of its highest)``; reasons overlap, so it is one."""
    reason, share = max((throttled or {}).items(), key=lambda item: item[1], default=("", 0.0))
    if share < LEAST_SHARE:
        return None
    clocks = [
        source.profile.metrics["sm_clock"]["mean"] / source.gpu.boost_clock
        for source in sources
        if "sm_clock" in source.profile.metrics
    ]
    of = "an epoch" if all(source.profile.unit == "epoch" for source in sources) else "the time"
    clock = f" (SM clock at {100 * mean(clocks):.0f} % of its highest)" if clocks else ""
    return f"{100 * share:.0f} % of {of} at reduced clock: {_REASONS[reason]}{clock}"
