"""The service's view of the fleet: jobs and what is predicted of each, made again whenever the store has changed."""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Literal

from pydantic import BaseModel, Field

from epochcast import __version__
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.grouping import group
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.watched import JobPlan, WatchedGpu, WatchedJob, sources_of, watch_gpu
from epochcast.analyzer.live.health import WatcherReport, problems_of
from epochcast.analyzer.live.metrics import GONE_S
from epochcast.analyzer.live.state_store import StateStore, StoredReports
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.job_answers import JobAnswers, JobRecord, planned, read_record, record_json, work_ahead
from epochcast.analyzer.service.listing import gpu_place, job_place
from epochcast.analyzer.telemetry.gpu_report import Report

log = logging.getLogger(__name__)

# How often the store is checked for changes, and a round made without any: GPUs fall silent by themselves.
_LOOK_S, _ROUND_S = 2.0, 30.0

# After a round there is a pause so many times as long, so that a large fleet leaves the machine to requests.
_PAUSE = 5.0

# The watcher writes a GPU at least every five seconds.
_REFILL_S = 10.0

# A GPU that nobody has reported for so long no longer counts as working.
_SILENT_S = 300.0

# Jobs that have ended and are still answered.
_MOST_ENDED = 1000

_MOST_NOTES = 20


class Health(BaseModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources_up: int = Field(description="Telemetry sources that answered the last poll.")
    sources_down: int = Field(description="Telemetry sources that did not answer the last poll.")
    notes: list[str] = Field(
        description=f"What is wrong, one sentence each; of more than {_MOST_NOTES} the first, and how many more."
    )


@dataclass(frozen=True)
class Snapshot:
    """All that is known, as of one moment; it never changes.

    Attributes:
        taken_at: unix seconds.
        gpus: by UUID, in the order of `listing.gpu_place`.
        jobs: by id, the newest first (`listing.job_place`).
        reports: of the GPUs, by UUID.
        detected_here: UUIDs of GPUs whose epochs are detected by this service, and not by their node's analyzer.
        gone: UUIDs of GPUs that nobody has reported for `GONE_S`: they have no metrics any more.
    """

    taken_at: float
    gpus: Mapping[str, WatchedGpu]
    jobs: Mapping[str, WatchedJob]
    reports: Mapping[str, Report]
    detected_here: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


class Analysis:
    """Keeps a snapshot of the store's content; a thread of its own renews it.

    Attributes:
        watcher: says how the watcher and its sources are now.
        problems: sentences on what is wrong with the service's processes now.
        on_round: called with the seconds of each round.
    """

    def __init__(self, store: StateStore, advisor: Advisor, settings: Settings) -> None:
        """Make one that has not looked yet; `start` or `round` makes it."""
        self.watcher: Callable[[], WatcherReport] = WatcherReport
        self.problems: Callable[[], list[str]] = list
        self.on_round: Callable[[float], object] = lambda seconds: None
        self._errors = 0
        self._store = store
        self._stored = StoredReports(store)
        self._advisor = advisor
        self._answers = JobAnswers(store, advisor, settings.market)
        self._settings = settings
        self._keep_s = 86_400.0 * settings.keep_days
        self._records: dict[str, JobRecord] | None = None
        self._written: dict[str, JobRecord] = {}  # as the store has them
        self._generation = store.generation
        self._refilled = -math.inf  # when the watcher has written what it knows into an empty file, by the monotonic clock
        self._error = self._store_error = ""  # of the last round, and of its writes
        self._finished: float | None = None  # when the last round did, by the monotonic clock
        self._started = False
        self._took_s = 0.0  # CPU seconds of the last round
        self._working = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._snapshot = Snapshot(time.time(), {}, {}, {})

    @property
    def errors(self) -> int:
        """Rounds, or jobs in one, that failed; a counter."""
        return self._errors + self._answers.errors

    @property
    def snapshot(self) -> Snapshot:
        """The newest; before the first round an empty one."""
        return self._snapshot

    @property
    def health(self) -> Health:
        """Of the service, now."""
        snapshot, report = self._snapshot, self.watcher()
        polled = not self._settings.watched or any(source.polls for source in report.sources)
        self._started = self._started or (self._finished is not None and polled)
        problems = self.problems()
        if self._error:
            problems.append(f"the last analysis failed, so these figures are old: {self._error}")
        elif self._finished is not None and (age := time.monotonic() - self._finished) > self._longest_round_s:
            problems.append(f"the last analysis ended {age:.0f} s ago, so these figures are old")
        problems += [f"job {job} cannot be analysed: {error}" for job, error in self._answers.failed.items()]
        notes = [*problems, *problems_of(report, self._store_error)]
        if len(notes) > _MOST_NOTES:
            more = len(notes) - _MOST_NOTES
            notes[_MOST_NOTES:] = [f"{more} more; /api/v1/sources?up=false lists the sources that do not answer"]
        up = sum(source.up for source in report.sources)
        return Health(
            status="degraded" if notes else "ok" if self._started else "starting",
            version=__version__,
            gpus=len(snapshot.gpus),
            jobs=len(snapshot.jobs),
            sources_up=up,
            sources_down=len(report.sources) - up,
            notes=notes,
        )

    @property
    def _longest_round_s(self) -> float:
        return 2 * _ROUND_S + (1 + _PAUSE) * self._took_s

    @property
    def oldest_price(self) -> date:
        """Day of the oldest price that recommendations rest on."""
        return self._advisor.oldest_price

    def start(self) -> None:
        """Begin to look for changes."""
        self._thread = threading.Thread(target=self._run, name="analysis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it, after the round that runs."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=10)

    def round(self) -> None:
        """Look now. What fails is logged, counted and shown in the snapshot's health; nothing is raised."""
        with self._working:
            began, cpu = time.perf_counter(), time.thread_time()
            try:
                self._snapshot, self._error = self._look(cpu), ""
            except Exception as error:
                self._errors += 1
                log.exception("a round of the analysis failed")
                self._error = str(error) or type(error).__name__
            self._finished = time.monotonic()
            self._took_s = time.thread_time() - cpu
            self.on_round(time.perf_counter() - began)

    def answer(self, job: str, question: JobQuestion) -> Job:
        """Predict a job, and rank what can be rented for it; its plan completes the question.

        Raises:
            KeyError: no such job.
            InputError: there is no answer for it yet, no such target, or limits that cannot be kept.
        """
        record = self._record(job)
        answer, plan = record.answer, record.answer.plan
        sources, _ = sources_of(record.reports, self._advisor.catalog)
        if not sources:
            raise InputError(f"nothing can be predicted for job {job!r}: {'; '.join(answer.notes) or 'it has no profile'}")
        asked = question.completed(self._advisor.configured).model_copy(update={"machines": len(answer.nodes)})
        devices = [report.device for report in record.reports]
        found = self._advisor.answer(
            sources,
            asked.completed(planned(plan, asked.epochs)),
            recommend=True,
            gpus=len(answer.gpus),
            work=work_ahead(sources, plan, answer.epochs_seen, record.reports) if asked.epochs is None else None,
            on=self._answers.rented(sources, plan, devices, asked.limits.market),
        )
        return replace(found, notes=tuple(dict.fromkeys([*answer.notes, *found.notes])))

    def set_plan(self, job: str, plan: JobPlan) -> None:
        """Keep what the operator says of a job, and answer by it from now on.

        Raises:
            KeyError: no such job.
        """
        self._record(job)
        self._store.write_plan(job, plan.model_dump())
        self.round()

    def _run(self) -> None:
        seen: tuple[int, int] | None = None
        looked = 0.0
        while not self._stop.is_set():
            try:
                changes = self._store.changes
            except sqlite3.Error:
                changes = None  # the round says what is wrong
            due = time.monotonic() - looked >= _ROUND_S or time.time() >= self._answers.renew_at
            if changes != seen or changes is None or due:
                seen, looked = changes, time.monotonic()
                self.round()
            self._stop.wait(max(_LOOK_S, _PAUSE * self._took_s))

    def _look(self, began: float) -> Snapshot:
        now = time.time()
        self._stored.read()
        reports, heard = self._stored.reports, self._stored.heard
        if self._records is None:
            self._records = self._read_records()
        if self._store.generation != self._generation:
            self._begin_anew()
        if time.monotonic() < self._refilled:
            return self._snapshot
        silent = frozenset(uuid for uuid in reports if now - heard[uuid].at > _SILENT_S)
        gone = frozenset(uuid for uuid in silent if now - heard[uuid].at > GONE_S)
        plans = self._store.plans()
        groups = group(reports, [record.known for record in self._records.values()])
        current = self._answers.of_round(groups, reports, silent, plans, self._records, began)
        self._keep(current, now)
        jobs = {job: record.answer for job, record in self._records.items()}
        ordered = {job.id: job for job in sorted(jobs.values(), key=job_place)}
        job_of = {uuid: job_group.id for job_group in groups for uuid in job_group.gpus if job_group.id in current}
        newest = self._stored.newest
        answers = [watch_gpu(report, job_of.get(uuid), self._advisor.catalog) for uuid, report in newest.items()]
        gpus = {gpu.uuid: gpu for gpu in sorted(answers, key=gpu_place)}
        detected_here = frozenset(uuid for uuid in newest if not heard[uuid].by_node)
        return Snapshot(now, gpus, ordered, newest, detected_here, gone)

    def _record(self, job: str) -> JobRecord:
        return (self._records or {})[job]

    def _read_records(self) -> dict[str, JobRecord]:
        records = map(read_record, self._store.jobs().values())
        self._written = {record.answer.id: record for record in records if record is not None}
        return dict(self._written)

    def _keep(self, current: Mapping[str, JobRecord], now: float) -> None:
        """Take the jobs of this round in, let go of what is part of another or too old, and write what is new."""
        before = self._records or {}
        members = {(uuid, since) for record in current.values() for uuid, since in record.members.items()}
        ended = [
            replace(record, answer=replace(record.answer, active=False))
            for job, record in before.items()
            if job not in current and job not in self._answers.failed and not members.issuperset(record.members.items())
        ]
        ended = [record for record in ended if now - record.last_active <= self._keep_s]
        ended.sort(key=lambda record: -record.last_active)
        failed = {job: before[job] for job in self._answers.failed if job in before}
        self._records = {**current, **failed, **{record.answer.id: record for record in ended[:_MOST_ENDED]}}
        self._write()

    def _begin_anew(self) -> None:
        """Keep plans and jobs where an empty file took the place of a damaged one."""
        for job, record in (self._records or {}).items():
            self._store.write_plan(job, record.answer.plan.model_dump())
        self._written, self._generation = {}, self._store.generation
        self._refilled = time.monotonic() + _REFILL_S

    def _write(self) -> None:
        """Write jobs that are not in the store as they are; where that fails, the next round tries again."""
        records = self._records or {}
        changed = {job: record_json(record) for job, record in records.items() if _is_new(self._written.get(job), record)}
        try:
            self._store.write_jobs(changed, gone=[job for job in self._written if job not in records])
        except sqlite3.Error as error:
            self._errors += 1
            self._store_error = str(error)
            log.error("jobs cannot be written to the state: %s", error)
        else:
            self._written, self._store_error = dict(records), ""


def _is_new(before: JobRecord | None, record: JobRecord) -> bool:
    """Whether a record differs from what was written of its job."""
    return (
        before is None
        or before.answer != record.answer
        or before.members != record.members
        or [report.profile for report in before.reports] != [report.profile for report in record.reports]
    )
