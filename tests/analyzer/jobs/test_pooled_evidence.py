"""The GPUs of a job elect its cycle; those that contradict are named and do not count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from epochcast.analyzer.jobs.grouping import Group
from epochcast.analyzer.jobs.watched import JobPlan, WatchedJob, sources_of, sum_up
from epochcast.analyzer.telemetry.gpu_report import Report
from epochcast.detector import Cycle
from epochcast.regressor import load_catalog

from .made_reports import report

CATALOG = load_catalog()
SAVES = (Cycle("step", 0.5, 0.9, "even", 0.1, None), Cycle("checkpoint", 30.0, 0.9, "it saves", 0.2, 6.0))


def job(reports: Sequence[Report], plan: JobPlan | None = None) -> WatchedJob:
    """The answer for these GPUs as one job."""
    sources, notes = sources_of(reports, CATALOG)
    group = Group("job", "slurm_job", "Slurm job 7", tuple(one.device.uuid for one in reports))
    plan = plan or JobPlan()
    return sum_up(group, reports, CATALOG, sources=sources, epochs_seen=8, silent=(), plan=plan, notes=notes)


def gpus(*periods: float) -> list[Report]:
    return [report(f"GPU-{n}", label=str(n), period=period) for n, period in enumerate(periods)]


def test_the_odd_gpu_is_named_and_does_not_count() -> None:
    reports = gpus(30, 30, 9.1, 31)
    answer = job(reports)
    assert (answer.verdict, answer.unit, answer.epoch_s) == ("epochs", "epoch", 31.0)
    assert [note for note in answer.notes if "does not count" in note] == [
        "GPU 2 of node-1: shows a cycle of 9.10 s, unlike the others, so it does not count"
    ]
    assert len(sources_of(reports, CATALOG)[0]) == 3


def test_a_slow_gpu_is_a_straggler_and_counts() -> None:
    answer = job(gpus(30, 30, 35))
    assert (answer.epoch_s, answer.straggler) == (35.0, "GPU-2")
    assert not any("does not count" in note for note in answer.notes)


def test_gpus_without_a_majority_give_no_seconds() -> None:
    reports = gpus(30, 9)
    answer = job(reports)
    assert (answer.unit, answer.epoch_s) == (None, None)
    assert sum("no seconds are known" in note for note in answer.notes) == 2
    assert [source.profile.epoch_s for source in sources_of(reports, CATALOG)[0]] == [None, None]


def test_an_unsure_gpu_has_no_vote() -> None:
    reports = [report("GPU-0"), report("GPU-1", label="1", period=9, confidence=0.5)]
    assert job(reports).epoch_s == 30.0


def test_a_checkpoint_is_priced_as_a_cycle() -> None:
    answer = job([report(cycles=SAVES)])
    assert (answer.unit, [cycle.kind for cycle in answer.cycles]) == ("cycle", ["step", "checkpoint"])
    assert "seconds and cost are per cycle; its kind is checkpoint (it saves)" in answer.notes


def test_a_drifting_second_cycle_is_said_once() -> None:
    (note,) = job([report(second_period_s=41.0)]).notes
    assert "besides 30.0 s there is a cycle of 41.0 s that drifts against it" in note


@pytest.mark.parametrize(("cycles", "rate"), [(SAVES, 128.0), ((), None)])
def test_samples_per_second_need_a_step(cycles: tuple[Cycle, ...], rate: float | None) -> None:
    answer = job([report(cycles=cycles)], JobPlan(samples_per_step=64))
    assert (answer.throughput and answer.throughput.samples_per_s) == rate
    assert any("the telemetry shows no steps" in note for note in answer.notes) == (rate is None)
