"""The jobs of a fleet: which GPUs worked together, and what is predicted of each job.

The same grouping, prediction and recommendation as the service's (`jobs`, `answers`), over history instead of the present.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from epochcast.analyzer.fleet.savings import Saving, saving_of
from epochcast.analyzer.fleet.spans_by_start import FleetSpan, SpansByStart
from epochcast.analyzer.fleet.stragglers import Straggler, straggler_of
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.clusters import SAME_START_S
from epochcast.analyzer.jobs.grouping import Group, grouped
from epochcast.analyzer.jobs.job import Job, seen_work
from epochcast.analyzer.jobs.phase import LEAST_EPOCHS, MOST_APART
from epochcast.analyzer.jobs.predict import comparable, count_gpus
from epochcast.analyzer.jobs.prices.rented import rented
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.jobs.sources import Source, find_slowest
from epochcast.analyzer.jobs.summary import sources_of, sum_up
from epochcast.analyzer.jobs.verdict import Verdict
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob
from epochcast.analyzer.telemetry.gpu_report import Report

# Stretches that are looked at together; next to them those are held that may still get company.
_SLICE = 5000


@dataclass(frozen=True)
class FleetJob:
    """One job of the fleet.

    Attributes:
        answer: as the service gives it for a job.
        spans: its stretches of work, by the grouping's order of GPUs.
        complete: its GPUs are known to be the whole job; unknown for a GPU without epochs that is busy next to others.
        straggler: the GPU that the others wait for, a place in ``spans``; None where none stands out.
        saving: what moving it would save; None where its price or its prediction is not known.
    """

    answer: WatchedJob
    spans: tuple[FleetSpan, ...]
    complete: bool = True
    straggler: Straggler | None = None
    saving: Saving | None = None

    def without_predictions(self) -> FleetJob:
        """The same without its predictions and placements, each a long list; the first of each stay."""
        answer = self.answer.answer
        if answer is None:
            return self
        recommendation = answer.recommendation and replace(answer.recommendation, placements=(), left_out=())
        slim = replace(answer, predictions=(), recommendation=recommendation)
        return replace(self, answer=replace(self.answer, answer=slim))

    @property
    def recommendation(self) -> Recommendation | None:
        """Where to run it; None where nothing can be predicted."""
        return None if self.answer.answer is None else self.answer.answer.recommendation

    @property
    def start(self) -> float:
        """Unix seconds at which the first of its GPUs began."""
        return min(span.since for span in self.spans)

    @property
    def end(self) -> float:
        """Unix seconds at which the last of them ended."""
        return max(span.end for span in self.spans)

    @property
    def gpu_s(self) -> float:
        """Seconds of all of its GPUs together."""
        return sum(span.seconds for span in self.spans)

    @property
    def seconds(self) -> float:
        """As long as its GPUs worked, in the mean."""
        return self.gpu_s / len(self.answer.gpus)

    @property
    def sure(self) -> bool:
        """Whether moving it certainly saves something."""
        return self.complete and self.recommendation is not None and self.recommendation.verdict.certain

    @property
    def advice(self) -> Verdict | None:
        """What to do with it; None where nothing is recommended."""
        verdict = None if self.recommendation is None else self.recommendation.verdict
        if verdict is None or self.complete or verdict.action != "move":
            return verdict
        text = "Cannot tell yet: find out which GPUs belong to the job"
        return Verdict("measure", text, "other GPUs of its machine worked at the same time")

    @property
    def saved_usd(self) -> float | None:
        """What moving it would have saved of the time that was analysed."""
        return None if self.saving is None else self.saving.usd(self.seconds)


@dataclass(frozen=True)
class UnansweredJob:
    """What the answer to a job starts from.

    Attributes:
        number: of the job, from 0.
        group: its GPUs.
        spans: its stretches of work, by the group's order of GPUs.
        reports: the whole report of each stretch.
        shared: more than one GPU of its machine worked.
    """

    number: int
    group: Group
    spans: tuple[FleetSpan, ...]
    reports: tuple[Report, ...]
    shared: bool


def unanswered(spans: SpansByStart) -> Iterator[UnansweredJob]:
    """Yield the jobs of a fleet, about by their beginning, each once; ``spans`` are never held all at once."""
    shared = spans.shared_nodes()
    for number, (group, own) in enumerate(groups_of(spans)):
        reports = tuple(spans.full_report(span) for span in own)
        yield UnansweredJob(number, group, own, reports, reports[0].device.node in shared)


def groups_of(spans: Iterable[FleetSpan], *, most: int = _SLICE) -> Iterator[tuple[Group, tuple[FleetSpan, ...]]]:
    """Yield which stretches of work are one job, of stretches in the order of their beginning.

    The result is that of grouping all GPUs of one model at once: ``most`` stretches at a time are looked at, and a group waits
    as long as one that begins later may belong to it. Models are kept apart: of thousands of jobs some are in step by chance.
    """
    coming = iter(spans)
    held: list[FleetSpan] = []
    while True:
        part = list(islice(coming, most))
        held += part
        if not held:
            return
        by_start = {(span.report.device.uuid, span.since): span for span in held}
        rhythms = {key: span.rhythm for key, span in by_start.items() if span.rhythm is not None}
        groups = [
            (group, tuple(by_start[report.device.uuid, report.job_since or 0.0] for report in _ordered(group, reports)))
            for alike in _by_model(held)
            for group, reports in grouped(alike, rhythms=rhythms)
        ]
        unfinished = [own for _, own in groups if part and max(map(_joined_until, own)) >= part[-1].since]
        waiting = {(span.report.device.uuid, span.since) for own in unfinished for span in own}
        done = [candidate for candidate in groups if (candidate[1][0].report.device.uuid, candidate[1][0].since) not in waiting]
        yield from sorted(done, key=lambda candidate: (min(span.since for span in candidate[1]), candidate[0].id))
        held = [span for span in held if (span.report.device.uuid, span.since) in waiting]


def _by_model(spans: Iterable[FleetSpan]) -> Iterable[list[Report]]:
    """Reports of each GPU model; those of GPUs with known owners together, for these know better."""
    alike: dict[str, list[Report]] = {}
    for span in spans:
        alike.setdefault("" if span.report.owners else span.report.device.name, []).append(span.report)
    return alike.values()


def _joined_until(span: FleetSpan) -> float:
    """Until when another may begin that belongs to this one: one epoch later, or as long as its owners can be seen."""
    report = span.report
    if report.owners:
        return span.end
    epoch_s = report.detection.period_s or 0.0 if report.detection.verdict == "epochs" else 0.0
    return span.since + max((1 + 2 * MOST_APART) * epoch_s, 0.0 if span.rhythm is None else SAME_START_S)


def _ordered(group: Group, reports: Iterable[Report]) -> list[Report]:
    place = {uuid: number for number, uuid in enumerate(group.gpus)}
    return sorted(reports, key=lambda report: (place[report.device.uuid], report.job_since))


def answered(job: UnansweredJob, advisor: Advisor, *, unpredicted: str | None = None) -> FleetJob:
    """Predict a job and say where it costs less; nothing of that where ``unpredicted`` says why not."""
    group, spans, reports = job.group, job.spans, job.reports
    gpus = tuple(dict.fromkeys(group.gpus))
    sources, notes = sources_of(reports, advisor.catalog)
    # GPUs are synchronous if five epochs ended together: fewer are not enough.
    distinguishable = all(report.detection.verdict == "epochs" and len(report.epochs) >= LEAST_EPOCHS for report in reports)
    complete = group.grouped_by != "single" or distinguishable or not job.shared
    if not complete:
        notes.append(
            "other GPUs of its machine were busy too, and without epochs it is unclear whether they belong to the same job"
        )
    result = None
    if unpredicted is not None:
        notes.append(f"nothing is predicted: {unpredicted}")
    try:
        if sources and unpredicted is None:
            result = _result(sources, reports, len(gpus), advisor, spans)
    except ValueError as error:  # the InputError of any room
        notes.append(str(error))
    answer = sum_up(
        group,
        reports,
        advisor.catalog,
        sources=sources,
        epochs_seen=max(span.epochs for span in spans),
        silent=(),
        plan=JobPlan(),
        notes=notes,
        answer=result,
    )
    answer = replace(answer, gpus=gpus, active=False)
    saving = None if result is None or result.recommendation is None else saving_of(result.recommendation)
    return FleetJob(answer, spans, complete, straggler_of(reports, answer.straggler), saving)


def _result(
    sources: Sequence[Source], reports: Sequence[Report], gpus: int, advisor: Advisor, spans: Sequence[FleetSpan]
) -> Job:
    """Of the slowest GPU of each model: the others wait for it, and each more costs 10 ms."""
    by_model: dict[str, Source] = {}
    gpus = count_gpus(sources, gpus)
    for source in comparable(sources)[0]:
        known = by_model.setdefault(source.gpu.name, source)
        if (source.profile.epoch_s or 0.0) > (known.profile.epoch_s or 0.0):
            by_model[source.gpu.name] = source
    slowest = find_slowest(list(by_model.values()))
    devices, ran_s = [report.device for report in reports], max(span.seconds for span in spans)
    epochs = max(span.epochs for span in spans)
    machines = len({device.node for device in devices})
    on = rented(
        slowest.gpu.name, gpus, advisor.instances, devices=devices, machines=machines, market=advisor.configured.limits.market
    )
    work, _ = seen_work(slowest, epochs=epochs, ran_s=ran_s, phrase="the {} that it ran")
    question = JobQuestion(machines=machines)
    return advisor.answer(list(by_model.values()), question, recommend=True, work=work, gpus=gpus, on=on)
