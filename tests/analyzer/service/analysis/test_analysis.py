"""The snapshot of a fleet: what is told of jobs in every state, what changes, and what outlives a restart."""

from __future__ import annotations

import json
import math
import sqlite3
import time
from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.jobs.advisor import Advisor
from epochcast.analyzer.jobs.job import Job
from epochcast.analyzer.jobs.questions import JobQuestion
from epochcast.analyzer.jobs.recommend import Recommendation
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob
from epochcast.analyzer.live.health import SourceStatus, WatcherHealth, WatcherReport
from epochcast.analyzer.live.state_store import GpuChange, StateStore
from epochcast.analyzer.service import analysis as analysis_module
from epochcast.analyzer.service import job_answers
from epochcast.analyzer.service.analysis import Analysis
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.telemetry.gpu_report import MOST_EPOCHS, EpochRecord, Owner, Report
from epochcast.regressor import Profile

from ....processes import wait_until
from ...jobs.made_reports import BEGAN, report
from .conftest import MakeAnalysis


def only(analysis: Analysis) -> WatchedJob:
    (job,) = analysis.snapshot.jobs.values()
    return job


def recommended(job: WatchedJob) -> Recommendation:
    assert job.answer and job.answer.recommendation
    return job.answer.recommendation


@pytest.mark.parametrize(
    ("more", "unit", "says"),
    [
        ({"verdict": "steps", "period": 0.4}, "step", "only steps were found"),
        ({"verdict": "none"}, None, "no epochs or steps"),
        ({"confidence": 0.5}, None, "confidence 0.50 that is too uncertain"),
    ],
)
def test_without_sure_epochs_what_is_left_is_told(
    analysis: MakeAnalysis, more: dict[str, Any], unit: str | None, says: str
) -> None:
    job = only(analysis(report(**more)))
    assert job.unit == unit
    assert any(says in note for note in job.notes)
    assert job.answer and {one.seconds is None for one in job.answer.predictions} == {unit is None}
    assert recommended(job).placements and recommended(job).savings, "ratios rank instances too"


def test_an_unknown_gpu_is_told_with_the_remedy(analysis: MakeAnalysis) -> None:
    found = analysis(report(name="Vector Engine", profiled=False))
    assert found.snapshot.gpus["GPU-a"].model is None
    assert any("nothing can be predicted: unknown GPU 'Vector Engine'" in note for note in only(found).notes)
    with pytest.raises(InputError, match="nothing can be predicted for job"):
        found.answer(only(found).id, JobQuestion())


def test_the_slowest_gpu_sets_the_pace_and_stands_out(analysis: MakeAnalysis, store: StateStore) -> None:
    reports = [report(f"GPU-{n}", label=str(n), owners=_slurm(), period=32.0 if n == 2 else 30.0) for n in range(4)]
    reports[2] = replace(reports[2], profile=replace(_profile(reports[2]), epoch_s=32.0, epoch_s_high=33.0))
    job = only(analysis(*reports))
    assert job.epoch_s == 32.0 and job.straggler == "GPU-2"
    assert job.spread == pytest.approx(32 / 30 - 1)
    assert only(analysis(*(report(f"GPU-{n}", label=str(n), owners=_slurm()) for n in range(4)))).straggler is None


def test_a_job_that_ended_is_answered_still_and_after_a_restart(analysis: MakeAnalysis) -> None:
    first = only(analysis(report())).id
    for _ in range(2):  # the second time everything comes from the store
        found = analysis(report(since=BEGAN + 7200))
        assert [job.active for job in found.snapshot.jobs.values()] == [True, False], "the newest first"
        assert list(found.snapshot.jobs)[1] == first
    assert found.answer(first, JobQuestion()).predictions
    assert found.snapshot.gpus["GPU-a"].job != first


def test_a_job_that_became_part_of_another_is_no_job_that_ended(analysis: MakeAnalysis, store: StateStore) -> None:
    found = analysis(report("GPU-a", verdict="none"), report("GPU-b", label="1", verdict="none"))
    assert len(found.snapshot.jobs) == 2
    store.write_gpus([GpuChange(report("GPU-a")), GpuChange(report("GPU-b", label="1"))])
    found.round()
    assert only(found).gpus == ("GPU-a", "GPU-b") and list(store.jobs()) == [only(found).id]


def test_jobs_that_ended_long_ago_are_forgotten(analysis: MakeAnalysis, store: StateStore) -> None:
    first = only(analysis(report())).id
    old = json.loads(store.jobs()[first]) | {"last_active": time.time() - 31 * 86400}
    store.write_jobs({first: json.dumps(old).encode()})
    found = analysis(report(since=BEGAN + 7200))
    assert first not in found.snapshot.jobs and first not in store.jobs()


def test_what_was_held_back_comes_by_itself(store: StateStore, advisor: Advisor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_answers, "_RENEW_S", 1.0)
    monkeypatch.setattr(analysis_module, "_LOOK_S", 0.05)
    store.write_gpus([GpuChange(report())])
    one = Analysis(store, advisor, Settings())
    one.round()
    store.write_gpus([GpuChange(replace(report(), profile=replace(_profile(report()), epoch_s=29.9)))])
    one.start()  # sees no later change of the store
    try:
        wait_until(lambda: (answer := only(one).answer) is not None and answer.here.profile.epoch_s == 29.9)
    finally:
        one.stop()


def test_what_the_operator_says_counts(analysis: MakeAnalysis) -> None:
    found = analysis(report())
    job = only(found).id
    found.set_plan(job, JobPlan(epochs=90, instance="g4dn.8xlarge", cloud="aws"))
    answer, where = only(found).answer, recommended(only(found))
    assert answer and answer.epochs == 90
    assert where.current and (where.current.instance.name, where.on.assumed) == ("g4dn.8xlarge", False)
    first = where.placements[0]
    assert first.seconds and first.seconds.value > 80 * 30 * first.prediction.ratio
    again = analysis(report())
    assert only(again).plan.epochs == 90, "after a restart too"
    with pytest.raises(KeyError):
        found.set_plan("slurm-7", JobPlan())


def test_a_plan_of_another_version_does_not_hide_its_job(analysis: MakeAnalysis, store: StateStore) -> None:
    job = only(analysis(report())).id
    store.write_plan(job, {"epochs": 90, "owner": "of tomorrow"})
    answer = only(analysis(report()))
    assert (answer.plan, answer.answer is not None) == (JobPlan(), True)
    assert any("the stored plan of the job is ignored because its owner" in note for note in answer.notes)


def test_a_figure_that_is_not_finite_keeps_no_job_from_being_told(
    analysis: MakeAnalysis, advisor: Advisor, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Advisor.answer

    def endless(self: Advisor, sources: Any, question: JobQuestion, **more: Any) -> Job:
        result = answer(self, sources, question, **more)
        first, *others = result.predictions
        return replace(result, predictions=(replace(first, high=math.inf), *others))

    monkeypatch.setattr(Advisor, "answer", endless)
    found = analysis(report())
    assert found.errors == 0
    job = only(found)
    kept = json.loads(store.jobs()[job.id])["answer"]
    assert kept["answer"]["predictions"][0]["high"] is None


def test_a_job_that_fails_leaves_the_others_alone(
    analysis: MakeAnalysis, advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = Advisor.answer

    def fails(self: Advisor, sources: Any, question: JobQuestion, **more: Any) -> Job:
        if sources[0].profile.epoch_s == 31.0:
            raise ZeroDivisionError
        return answer(self, sources, question, **more)

    monkeypatch.setattr(Advisor, "answer", fails)
    bad = report("GPU-b", label="1", since=BEGAN + 500, period=31.0)
    found = analysis(report(), replace(bad, profile=replace(_profile(bad), epoch_s=31.0, epoch_s_high=32.0)))
    good, failed = (found.snapshot.jobs[found.snapshot.gpus[uuid].job or ""] for uuid in ("GPU-a", "GPU-b"))
    assert good.answer is not None and failed.answer is None
    assert any("a bug in Epochcast (ZeroDivisionError)" in note for note in failed.notes)
    assert found.errors == 1


def test_gpus_that_nobody_tells_of_do_not_count_as_working(analysis: MakeAnalysis, store: StateStore) -> None:
    found = analysis(report())
    with sqlite3.connect(store.path) as connection:
        connection.execute("UPDATE heard SET reported_at = reported_at - 301")
    found.round()
    assert not only(found).active and "its telemetry is silent" in only(found).notes


def test_epochs_beyond_those_of_the_report_are_counted_in_the_store(analysis: MakeAnalysis, store: StateStore) -> None:
    epochs = [EpochRecord(BEGAN + n, BEGAN + n + 1, 1.0, BEGAN) for n in range(-50, 250)]
    store.write_gpus([GpuChange(report(), epochs)])
    assert only(analysis(report(epochs=MOST_EPOCHS))).epochs_seen == 250


def test_health_names_what_is_wrong(store: StateStore, advisor: Advisor) -> None:
    configured = {"agents": [{"url": "http://127.0.0.1:9911"}]}
    one = Analysis(store, advisor, Settings(**configured))  # type: ignore[arg-type]
    health, source = WatcherHealth(), SourceStatus("agent", "http://127.0.0.1:9911")
    one.watcher = lambda: WatcherReport(health, [source])
    assert one.health.status == "starting"
    one.round()
    assert one.health.status == "starting" and not one.health.notes, "its source was not polled yet"
    # Its first poll is under way, which takes long where much of the past is read.
    source.polls = 1
    assert not one.health.notes, "it is not down yet"
    source.up, source.clock_offset_s = True, 9.0
    assert one.health.status == "ok" and one.health.sources_up == 1
    one.problems = lambda: ["the watcher process is not running"]
    source.up, source.error, source.clock_offset_s = False, "it refuses the connection", -7200.0
    health.store_error, health.turn_s = "database or disk is full", 33.0
    assert one.health.status == "degraded"
    for part in (
        "watcher process is not running",
        "processing the same samples for 33 s",
        "it refuses the connection",
        "cannot be written (database or disk is full)",
        "the clock of agent http://127.0.0.1:9911 is 2\N{NO-BREAK SPACE}h behind this machine's",
    ):
        assert any(part in note for note in one.health.notes), (part, one.health.notes)
    one.problems, health, source = list, WatcherHealth(), SourceStatus("agent", "a", polls=1)
    assert one.health.status == "ok", "all of it has healed"


def test_an_analysis_that_hangs_is_noticed(store: StateStore, advisor: Advisor, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Analysis(store, advisor, Settings())
    one.round()
    assert one.health.status == "ok"
    later = time.monotonic() + 120
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert "the last analysis ended 12" in one.health.notes[0]


def test_jobs_that_cannot_be_written_are_written_later(
    analysis: MakeAnalysis, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "write_jobs", full)
        made = analysis(report())
        assert made.snapshot.jobs and "disk is full" in made.health.notes[0]
    assert not store.jobs()
    made.round()
    assert store.jobs() and made.health.status == "ok"


def test_a_state_that_cannot_be_read_keeps_what_was_known(
    analysis: MakeAnalysis, store: StateStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = analysis(report())

    def broken(*_: object, **__: object) -> dict[str, Report]:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(StateStore, "heard", broken)
        found.round()
    assert found.errors == 1 and found.snapshot.jobs
    assert found.health.status == "degraded" and "disk I/O error" in found.health.notes[0]
    found.round()
    assert found.health.status == "ok"


def test_the_thread_sees_what_another_process_writes(store: StateStore, advisor: Advisor) -> None:
    one = Analysis(store, advisor, Settings())
    one.start()
    other = StateStore(store.path)
    try:
        other.write_gpus([GpuChange(report())])
        wait_until(lambda: one.snapshot.jobs)
    finally:
        one.stop()
        other.close()


def _slurm() -> tuple[Owner, ...]:
    return (Owner(100, "python", slurm_job="42"),)


def _profile(one: Report) -> Profile:
    assert one.profile is not None
    return one.profile


def test_predictions_of_many_jobs_are_made_one_after_another(
    analysis: MakeAnalysis, store: StateStore, advisor: Advisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def predicted(one: Analysis) -> set[str]:
        return {job.gpus[0] for job in one.snapshot.jobs.values() if job.answer is not None}

    monkeypatch.setattr(job_answers, "_ANSWER_S", 0.0)  # of each round the first alone
    reports = [report(f"GPU-{number}", node=f"node-{number}", since=BEGAN + 1000 * number) for number in range(3)]
    found = analysis(*reports)
    assert len(predicted(found)) == 1
    late = next(job for job in found.snapshot.jobs.values() if job.answer is None)
    assert "many jobs are waiting for one" in late.notes[-1]
    found.set_plan(late.id, JobPlan(epochs=10))  # what an operator says is answered before the others
    assert late.gpus[0] in predicted(found)
    found.round()
    found.round()
    assert len(predicted(found)) == 3 and found._answers.renew_at == math.inf
    again = Analysis(store, advisor, Settings())  # after a restart they have what they had
    again.round()
    assert len(predicted(again)) == 3 and again._answers.renew_at < math.inf


def test_a_job_of_another_version_is_left_out(analysis: MakeAnalysis, store: StateStore) -> None:
    analysis(report())
    store.write_jobs({"slurm-1": b'{"answer": {"id": "slurm-1"}}'})
    assert len(analysis(report()).snapshot.jobs) == 1
