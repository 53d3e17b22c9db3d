"""The jobs of a fleet: which GPUs worked together, by the service's grouping (`jobs`), over history instead of the present."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from epochcast.analyzer.fleet.finding import JobSpan
from epochcast.analyzer.fleet.spans_by_start import SpansByStart
from epochcast.analyzer.jobs.grouping import MOST_APART, SAME_START_S, Group, grouped
from epochcast.analyzer.telemetry.gpu_report import Report

# Stretches that are looked at together; next to them those are held that may still get company.
_SLICE = 5000


@dataclass(frozen=True)
class UnansweredJob:
    """What the answer to a job starts from.

    Attributes:
        number: of the job, from 0.
        group: its GPUs.
        spans: its stretches of work, whole, by the group's order of GPUs.
        shared: more than one GPU of its machine worked.
    """

    number: int
    group: Group
    spans: tuple[JobSpan, ...]
    shared: bool


def unanswered(spans: SpansByStart) -> Iterator[UnansweredJob]:
    """Yield the jobs of a fleet, about by their beginning, each once; ``spans`` are never held all at once."""
    shared = spans.shared_nodes()
    for number, (group, own) in enumerate(groups_of(spans)):
        yield UnansweredJob(number, group, tuple(map(spans.whole, own)), own[0].report.device.node in shared)


def groups_of(spans: Iterable[JobSpan], *, most: int = _SLICE) -> Iterator[tuple[Group, tuple[JobSpan, ...]]]:
    """Yield which stretches of work are one job, of stretches in the order of their beginning.

    The result is that of grouping all GPUs of one model at once: ``most`` stretches at a time are looked at, and a group waits
    as long as one that begins later may belong to it. Models are kept apart: of thousands of jobs some are in step by chance.
    """
    coming = iter(spans)
    held: list[JobSpan] = []
    while True:
        part = list(islice(coming, most))
        held += part
        if not held:
            return
        by_start = {(span.report.device.uuid, span.start): span for span in held}
        rhythms = {key: span.rhythm for key, span in by_start.items() if span.rhythm is not None}
        groups = [
            (group, tuple(by_start[report.device.uuid, report.job_since or 0.0] for report in _ordered(group, reports)))
            for alike in _by_model(held)
            for group, reports in grouped(alike, rhythms=rhythms)
        ]
        unfinished = [own for _, own in groups if part and max(map(_joined_until, own)) >= part[-1].start]
        waiting = {(span.report.device.uuid, span.start) for own in unfinished for span in own}
        done = [candidate for candidate in groups if (candidate[1][0].report.device.uuid, candidate[1][0].start) not in waiting]
        yield from sorted(done, key=lambda candidate: (min(span.start for span in candidate[1]), candidate[0].id))
        held = [span for span in held if (span.report.device.uuid, span.start) in waiting]


def _by_model(spans: Iterable[JobSpan]) -> Iterable[list[Report]]:
    """Reports of each GPU model; those of GPUs with known owners together, for these know better."""
    alike: dict[str, list[Report]] = {}
    for span in spans:
        alike.setdefault("" if span.report.owners else span.report.device.name, []).append(span.report)
    return alike.values()


def _joined_until(span: JobSpan) -> float:
    """Until when another may begin that belongs to this one: one epoch later, or as long as its owners can be seen."""
    report = span.report
    if report.owners:
        return span.end
    epoch_s = report.detection.period_s or 0.0 if report.detection.verdict == "epochs" else 0.0
    return span.start + max((1 + 2 * MOST_APART) * epoch_s, 0.0 if span.rhythm is None else SAME_START_S)


def _ordered(group: Group, reports: Iterable[Report]) -> list[Report]:
    place = {uuid: number for number, uuid in enumerate(group.gpus)}
    return sorted(reports, key=lambda report: (place[report.device.uuid], report.job_since))
