"""Jobs as they are answered: summed up and predicted again only when what that rests on has changed, and not all at once."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from operator import is_
from typing import Any

from pydantic import TypeAdapter, ValidationError

from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.grouping import Group
from epochcast.analyzer.jobs.job import Job, seen_work
from epochcast.analyzer.jobs.predict import count_gpus
from epochcast.analyzer.jobs.prices import Market, Rented, rented
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.rank import Work
from epochcast.analyzer.jobs.sources import Source, find_slowest
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob, sources_of, sum_up
from epochcast.analyzer.live.state_store import StateStore
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, GpuDevice, Report

log = logging.getLogger(__name__)

# A profile changes a little with each epoch: its prediction is made again no sooner than after so many seconds.
_RENEW_S = 10.0

# A round that has taken so many CPU seconds predicts no more: some 5 ms each GPU of a job. The other jobs wait for the next
# round. By choice.
_ANSWER_S = 4.0

_WAITS = "no prediction yet: many jobs are waiting for one, and each takes its turn"


@dataclass(frozen=True)
class JobRecord:
    """A job as it was last published; the store keeps it, so that its id stays and it is still answered when it has ended.

    Attributes:
        answer: all of it.
        reports: of its GPUs, without their epochs.
        last_active: unix seconds at which it last went on.
    """

    answer: WatchedJob
    reports: tuple[Report, ...]
    last_active: float

    @property
    def members(self) -> dict[str, float]:
        """UUID of a GPU -> `Report.job_since` there."""
        return {report.device.uuid: report.job_since or 0.0 for report in self.reports}

    @property
    def known(self) -> Group:
        """What the grouping needs to know of it."""
        answer = self.answer
        return Group(answer.id, answer.grouped_by, answer.title, answer.gpus, since=answer.since or 0.0, members=self.members)


_RECORD = TypeAdapter(JobRecord)


def record_json(record: JobRecord) -> bytes:
    """A record as JSON text."""
    return _RECORD.dump_json(record)


def read_record(text: bytes) -> JobRecord | None:
    """The record in JSON text; None, and a line in the log, where another version wrote it otherwise."""
    try:
        return _RECORD.validate_json(text)
    except ValueError as error:
        log.warning("an ended job is skipped because another version wrote it: %s", error)
        return None


@dataclass(frozen=True)
class _Question:
    """All that a job's prediction depends on: as long as it is the same, so is the answer."""

    sources: Sequence[Source]
    gpus: int
    work: Work | None
    machines: int
    on: Rented | None
    plan: JobPlan
    today: date
    inventory_time: float

    def is_like(self, other: _Question) -> bool:
        """Whether another question differs in the figures of the profiles alone."""
        kinds, others = ([(source.name, source.gpu, source.profile.unit) for source in each.sources] for each in (self, other))
        return kinds == others and replace(other, sources=self.sources, work=self.work) == self


@dataclass(frozen=True)
class _Answered:
    """``question`` is None of an answer of an earlier run of the service; ``at``: unix seconds, 0 then."""

    question: _Question | None
    answer: Job | None
    notes: tuple[str, ...]
    at: float


@dataclass(frozen=True)
class _Inputs:
    """All that a record is made of, besides the prediction."""

    group: Group
    reports: tuple[Report, ...]
    silent: frozenset[str]
    plan: Mapping[str, Any]
    today: date
    inventory_time: float

    def is_same(self, other: _Inputs) -> bool:
        """Whether nothing was written of its GPUs since: then the reports are the same objects."""
        return replace(other, reports=self.reports) == self and all(map(is_, self.reports, other.reports))


@dataclass(frozen=True)
class _Made:
    inputs: _Inputs
    record: JobRecord
    waits: bool  # for a prediction


class JobAnswers:
    """Answers the jobs of each round.

    Attributes:
        errors: jobs that could not be analysed or predicted; a counter.
        failed: why not, in the last round, by job.
        renew_at: unix seconds at which a prediction is due that was held back; infinity where none was.
    """

    def __init__(self, store: StateStore, advisor: Advisor, market: Market) -> None:
        """Answer by ``advisor``; ``store`` knows how many epochs a job had."""
        self.errors = 0
        self.failed: dict[str, str] = {}
        self.renew_at = math.inf
        self._store = store
        self._advisor = advisor
        self._market = market
        self._answered: dict[str, _Answered] = {}
        self._made: dict[str, _Made] = {}

    def of_round(
        self,
        groups: Sequence[Group],
        reports: Mapping[str, Report],
        silent: frozenset[str],
        plans: Mapping[str, Mapping[str, Any]],
        before: Mapping[str, JobRecord],
        began: float,
    ) -> dict[str, JobRecord]:
        """Return the record of each job by its id, but for those that failed.

        Args:
            groups: the jobs.
            reports: of their GPUs, by UUID.
            silent: UUIDs of GPUs that nobody reports any more.
            plans: what operators said, by job.
            before: the records of the last round, or of an earlier run.
            began: CPU seconds of this thread when the round began.
        """
        now, answers = time.time(), 0
        self._advisor.renew_inventory()
        inventory = self._advisor.inventory_time
        self.failed, self.renew_at = {}, math.inf
        made: dict[str, _Made] = {}
        # What an operator has just said is answered at once, then what has no answer, then the oldest answer.
        for group in sorted(groups, key=lambda group: (not self._is_new(group.id, plans), self._answered_at(group.id))):
            own = tuple(reports[uuid] for uuid in group.gpus)
            inputs = _Inputs(group, own, silent & frozenset(group.gpus), plans.get(group.id, {}), date.today(), inventory)
            # One at least, or a round that has too much else to do would never answer any.
            may_answer = self._is_new(group.id, plans) or not answers or time.thread_time() - began < _ANSWER_S
            answered_at = self._answered_at(group.id)
            try:
                made[group.id] = self._job(inputs, before.get(group.id), now, may_answer)
                answers += self._answered_at(group.id) != answered_at
            except Exception as error:  # the other jobs are published all the same
                self.errors += 1
                log.exception("job %s cannot be analysed", group.id)
                self.failed[group.id] = str(error)
        self._made = made
        self._answered = {job: answered for job, answered in self._answered.items() if job in made}
        return {job: each.record for job, each in made.items()}

    def rented(self, sources: Sequence[Source], plan: JobPlan, devices: Sequence[GpuDevice], market: Market) -> Rented:
        """What a job on ``devices`` runs on; ``sources`` are those of `sources_of`."""
        gpu, machines = find_slowest(sources).gpu.name, len({device.node for device in devices})
        instances, gpus = self._advisor.instances, count_gpus(sources, len(devices))
        return rented(gpu, gpus, instances, plan=plan, devices=devices, machines=machines, market=market)

    def _is_new(self, job: str, plans: Mapping[str, Mapping[str, Any]]) -> bool:
        """Whether its plan is."""
        return job in self._made and self._made[job].inputs.plan != plans.get(job, {})

    def _answered_at(self, job: str) -> float:
        return self._answered[job].at if job in self._answered else -math.inf

    def _job(self, inputs: _Inputs, before: JobRecord | None, now: float, may_answer: bool) -> _Made:
        job, reports = inputs.group.id, inputs.reports
        made = self._made.get(job)
        if made is not None and made.inputs.is_same(inputs) and not (made.waits and may_answer):
            self.renew_at = now if made.waits else self.renew_at
            return replace(made, record=replace(made.record, last_active=now))
        sources, notes = sources_of(reports, self._advisor.catalog)
        try:
            plan = JobPlan.model_validate(inputs.plan)
        except ValidationError as error:  # another version wrote it
            plan, wrong = JobPlan(), ".".join(map(str, error.errors()[0]["loc"]))
            notes.append(f"the stored plan of the job is ignored because its {wrong} is not valid; set the plan again")
        devices = tuple(report.device for report in reports)
        machines = len({device.node for device in devices})
        on = self.rented(sources, plan, devices, self._market) if sources else None
        work = work_ahead(sources, plan, max(self._epochs_of(report) for report in reports), reports)
        question = _Question(sources, len(reports), work, machines, on, plan, inputs.today, inputs.inventory_time)
        answered, waits = self._answer_to(question, inputs.group, before, now, may_answer)
        answer = sum_up(
            inputs.group,
            reports,
            self._advisor.catalog,
            sources=sources,
            epochs_seen=max(self._epochs_of(report) for report in reports),
            silent=inputs.silent,
            plan=plan,
            notes=[*notes, *answered.notes],
            answer=answered.answer,
        )
        return _Made(inputs, JobRecord(answer, tuple(replace(report, epochs=()) for report in reports), now), waits)

    def _answer_to(
        self, question: _Question, group: Group, before: JobRecord | None, now: float, may_answer: bool
    ) -> tuple[_Answered, bool]:
        """The answer, made again where it must and may be; and whether it waits for that."""
        known = self._answered.get(group.id)
        if known is None and before is not None and before.answer.answer is not None:
            was = before.answer
            if (was.gpus, was.plan) == (group.gpus, question.plan):
                known = _Answered(None, was.answer, (), 0.0)
        if known is not None and known.question == question:
            return known, False
        if known is not None and known.question is not None and not known.question.is_like(question):
            known = None
        if known is not None and now - known.at < _RENEW_S:
            self.renew_at = min(self.renew_at, known.at + _RENEW_S)
            return known, True
        if question.sources and not may_answer:
            self.renew_at = min(self.renew_at, now)
            return known or _Answered(None, None, (_WAITS,), 0.0), True
        answered = self._answered[group.id] = self._answer(group.id, question, now)
        return answered, False

    def _answer(self, job: str, question: _Question, now: float) -> _Answered:
        """Predict and recommend; where that fails, a note says why."""
        if not question.sources:
            return _Answered(question, None, (), now)
        answer, notes = None, []
        try:
            work = question.work
            if work is not None and find_slowest(question.sources).profile.epoch_s is None:
                work = None
                notes.append("the time of the whole job is unknown until its epochs are known")
            asked = planned(question.plan).model_copy(update={"epochs": None, "machines": question.machines})
            answer = self._advisor.answer(
                question.sources, asked, recommend=True, work=work, gpus=question.gpus, on=question.on
            )
        except ValueError as error:  # the InputError of any room
            notes.append(str(error))
        except Exception as error:
            self.errors += 1
            log.exception("job %s cannot be predicted", job)
            notes.append(f"the prediction failed because of a bug in Epochcast ({type(error).__name__}); see the service log")
        return _Answered(question, answer, tuple(notes), now)

    def _epochs_of(self, report: Report) -> int:
        """Epochs of the present job: those that it carries, or those in the store where it does not carry them all."""
        if len(report.epochs) < MOST_EPOCHS or report.job_since is None:
            return len(report.epochs)
        return max(len(report.epochs), self._store.epoch_count(report.device.uuid, report.job_since))


def work_ahead(sources: Sequence[Source], plan: JobPlan, epochs: int, reports: Sequence[Report]) -> Work | None:
    """What is still to be done: by the plan, else as much as was done so far; nobody else knows when a job ends."""
    if plan.epochs is not None or not sources:
        return None if plan.epochs is None else Work(plan.epochs)
    ends = [report.last_sample for report in reports if report.last_sample is not None]
    starts = [report.job_since for report in reports if report.job_since is not None]
    ran_s = max(ends) - min(starts) if ends and starts else 0.0
    return seen_work(find_slowest(sources), epochs=epochs, ran_s=ran_s, phrase="{} more, as many as so far")[0]


def planned(plan: JobPlan, epochs: int | None = None) -> JobQuestion:
    """A question with what an operator says of a job; ``epochs`` wins over the plan's."""
    return JobQuestion(
        epochs=epochs or plan.epochs, samples_per_step=plan.samples_per_step, tokens_per_step=plan.tokens_per_step
    )
