"""The order of a campaign: resumed, within its time, and with every failure kept apart from the rest."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock

from epochcast.analyzer.corpus import read_runs
from epochcast.analyzer.errors import AgentError, InputError
from lab.campaign import overhead as overhead_module
from lab.campaign import runner
from lab.campaign.overhead import MeasuredOverhead
from lab.campaign.plan import Overhead, Plan
from lab.campaign.recording import RecordingSettings, RunError
from lab.campaign.runner import Runner

from .conftest import CPU, EPOCH_S, FakeTraining

NAMES = [f"Net_{batch}_32_100_Some-CPU" for batch in (16, 32, 64)]


def _fail(error: BaseException) -> None:
    raise error


def test_runs_follow_the_plan_and_fill_the_corpus(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    said: list[str] = []
    results = Runner(plan, tmp_path / "corpus", CPU, progress=said.append).run()
    assert [(result.run, result.status, result.epochs, result.epoch_s) for result in results] == [
        (name, "done", 3, EPOCH_S) for name in NAMES
    ]
    assert [run.run for run in read_runs(tmp_path / "corpus")] == NAMES == training.began
    assert [run.profile.workload for run in read_runs(tmp_path / "corpus")] == [workload.text for workload, _ in plan.runs()]
    assert len(said) == 3
    assert "run 3 of 3" in said[2] and "about 23 s" in said[2]


def test_what_is_finished_is_skipped_and_nothing_else(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    training.before["Net|32|32|100"] = lambda: _fail(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        Runner(plan, tmp_path, CPU).run()
    assert [run.run for run in read_runs(tmp_path)] == NAMES[:1]
    training.before.clear()
    results = Runner(plan, tmp_path, CPU).run()
    assert [result.status for result in results] == ["skipped", "done", "done"]
    assert results[0].epoch_s == EPOCH_S
    assert training.began == [NAMES[0], NAMES[1], NAMES[1], NAMES[2]]


def test_labels_that_somebody_spoilt_tell_nothing_and_stop_nothing(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    Runner(plan, tmp_path, CPU).run()
    for spoilt in ('{"seconds": 1}', "[]", (tmp_path / "traces" / f"{NAMES[0]}.json").read_text().replace("23.0", '"long"')):
        (tmp_path / "traces" / f"{NAMES[0]}.json").write_text(spoilt)
        first, *others = Runner(plan, tmp_path, CPU).run()
        assert (first.status, first.epoch_s) == ("skipped", None) and all(result.epoch_s == EPOCH_S for result in others)


def test_another_device_runs_all_of_it_again(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    """And what the first took tells nothing of the other: the first run there is expected to take nothing."""
    Runner(plan, tmp_path, CPU).run()
    other = runner.TrainingDevice("cpu", "Other CPU", "host-there", "host")
    said: list[str] = []
    assert [result.status for result in Runner(plan, tmp_path, other, progress=said.append).run()] == ["done"] * 3
    assert len(read_runs(tmp_path)) == 6
    assert ["about" in line for line in said] == [False, True, True]


def test_a_failed_run_is_logged_and_the_next_goes_on(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    training.before["Net|32|32|100"] = lambda: _fail(RunError("CUDA out of memory", ["a line before", "CUDA out of memory"]))
    results = Runner(plan, tmp_path, CPU).run()
    assert [result.status for result in results] == ["done", "failed", "done"]
    assert results[1].reason == "CUDA out of memory"
    log = tmp_path / "failures" / f"{NAMES[1]}.log"
    assert log.read_text().splitlines() == ["CUDA out of memory", "a line before", "CUDA out of memory"]

    again = Runner(plan, tmp_path, CPU).run()
    assert [result.status for result in again] == ["skipped", "failed", "skipped"]
    assert again[1].reason is not None and again[1].reason.startswith("CUDA out of memory (failed before")
    assert len(training.began) == 3

    training.before.clear()
    retried = Runner(plan, tmp_path, CPU, retry_failed=True).run()
    assert [result.status for result in retried] == ["skipped", "done", "skipped"]
    assert not log.exists()


def test_a_network_too_big_for_its_size_fails_without_a_start(tmp_path: Path, training: FakeTraining) -> None:
    grid = {"network": "Net", "batch_size": 16, "image_size": [8, 32], "samples": 100, "epochs": 3}
    plan = Plan.model_validate({"workload": [grid]})
    results = Runner(plan, tmp_path, CPU, failures={("Net", 8): "8 pixels are too few"}).run()
    assert [(result.status, result.reason) for result in results] == [("failed", "8 pixels are too few"), ("done", None)]
    assert training.began == ["Net_16_32_100_Some-CPU"]


def test_no_run_starts_that_the_time_would_not_hold(tmp_path: Path, training: FakeTraining) -> None:
    """The first is expected to take nothing, as nothing was measured; an epoch is 5 s, and next to the epochs there are 8 s."""
    common = {"network": "Net", "image_size": 32, "batch_size": 16}
    grids = [{"samples": 100, "epochs": 3}, {"samples": 1000, "epochs": 20}, {"samples": 200, "epochs": 3}]
    plan = Plan.model_validate({"workload": [common | grid for grid in grids]})
    results = Runner(plan, tmp_path, CPU, time_budget_s=100).run()
    assert [result.status for result in results] == ["done", "not reached", "done"]
    assert results[1].reason is not None and "it would take about 1008 s" in results[1].reason
    more = Runner(plan, tmp_path, CPU, time_budget_s=2000).run()
    assert [result.status for result in more] == ["skipped", "done", "skipped"]


def test_the_plans_own_budget_holds_and_the_given_one_wins(
    tmp_path: Path, plan: Plan, training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A run takes 10 s by the clock, of which 20 are left then, and the next is expected to take 23.
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: 10.0 * len(training.began)))
    short = plan.model_copy(update={"time_budget_s": 30.0})
    assert [result.status for result in Runner(short, tmp_path, CPU).run()] == ["done", "not reached", "not reached"]
    assert [result.status for result in Runner(short, tmp_path, CPU, time_budget_s=60).run()] == ["skipped", "done", "done"]


@pytest.mark.parametrize("place", ["table", "failure log"])
def test_a_full_disk_stops_it_and_loses_nothing(
    tmp_path: Path, plan: Plan, training: FakeTraining, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if place == "table":
        training.before["Net|32|32|100"] = lambda: _fail(full)
    else:
        training.before["Net|32|32|100"] = lambda: _fail(RunError("it failed", []))

        def write(path: Path, write: object) -> None:
            raise InputError(f"cannot write {str(path)!r}: {full.strerror}") from full

        monkeypatch.setattr(runner, "write_whole", write)
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device; the campaign stopped there, and finished"):
        Runner(plan, tmp_path, CPU).run()
    assert [run.run for run in read_runs(tmp_path)] == NAMES[:1]
    training.before.clear()
    assert [result.status for result in Runner(plan, tmp_path, CPU).run()] == ["skipped", "done", "done"]


def test_a_run_that_was_recorded_but_not_added_is_added_and_not_repeated(
    tmp_path: Path, plan: Plan, training: FakeTraining
) -> None:
    Runner(plan, tmp_path, CPU).run()
    (tmp_path / "corpus.parquet").unlink()
    assert [result.status for result in Runner(plan, tmp_path, CPU).run()] == ["skipped"] * 3
    assert sorted(run.run for run in read_runs(tmp_path)) == NAMES
    assert len(training.began) == 3


def test_no_agent_is_no_full_disk(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    training.before["Net|16|32|100"] = lambda: _fail(AgentError("the agent gave no sample"))
    with pytest.raises(AgentError, match="the agent gave no sample"):
        Runner(plan, tmp_path, CPU).run()


def test_two_campaigns_do_not_share_a_folder(tmp_path: Path, plan: Plan, training: FakeTraining) -> None:
    with FileLock(tmp_path / ".campaign.lock"), pytest.raises(InputError, match="another campaign is writing to"):
        Runner(plan, tmp_path, CPU).run()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_campaign_without_the_present_run(
    tmp_path: Path, plan: Plan, training: FakeTraining, number: signal.Signals
) -> None:
    def interrupted() -> None:
        try:
            os.kill(os.getpid(), number)
            time.sleep(5)
        except SystemExit:  # as `record` takes it: it ends the training, and keeps what it has
            raise RunError("ended by SIGTERM", []) from None

    training.before["Net|32|32|100"] = interrupted
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as ended:
        Runner(plan, tmp_path, CPU).run()
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) is before
    assert [run.run for run in read_runs(tmp_path)] == NAMES[:1]
    assert not (tmp_path / "failures").exists()


def test_a_signal_whose_exception_was_lost_ends_the_campaign_after_the_present_run(
    tmp_path: Path, plan: Plan, training: FakeTraining
) -> None:
    def overheard() -> None:
        with suppress(SystemExit):
            signal.raise_signal(signal.SIGTERM)

    training.before["Net|32|32|100"] = overheard
    with pytest.raises(SystemExit) as ended:
        Runner(plan, tmp_path, CPU).run()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [run.run for run in read_runs(tmp_path)] == NAMES[:2]


def test_overheads_come_last_and_are_measured_once(
    tmp_path: Path, plan: Plan, training: FakeTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measure(workload: Overhead, name: str, training: RecordingSettings) -> MeasuredOverhead:
        epochs = [[1.0] * workload.epochs] * workload.pairs
        return MeasuredOverhead(name, workload.text, training.device.name, 0.02, 0.01, 0.03, epochs, epochs, 0.5, 1e9)

    monkeypatch.setattr(runner, "measure_overhead", measure)
    entry = {"network": "Net", "batch_size": 16, "image_size": 32, "samples": 100, "epochs": 2, "pairs": 2}
    both = Plan.model_validate({**plan.model_dump(), "overhead": [entry]})
    said: list[str] = []
    results = Runner(both, tmp_path, CPU, progress=said.append).run()
    assert "about 58 s" in said[-1], "two blocks of either kind and the first, of two epochs of 5 s each, and 8 s next to them"
    assert (results[-1].run, results[-1].status, results[-1].epochs) == ("overhead_Net_16_32_100_Some-CPU", "done", 8)
    assert Runner(both, tmp_path, CPU).run()[-1].status == "skipped"
    assert [found.overhead for found in overhead_module.read_overheads(tmp_path)] == [0.02]
