"""Each part is ended in the middle and started again: no wrong epoch, none told twice, no profile lost."""

import signal
from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="module")
def restarted(make_chain: Callable[[float], Any]) -> Any:
    """A chain of which every part was restarted, one after the other, while the recordings were played at ten times life."""
    chain = make_chain(10.0)
    four, other = (next(gpu for gpu in chain.gpus if gpu.job == job) for job in ("four", "other"))

    def played(share: float) -> None:
        chain.wait(lambda: min(chain.played(four), chain.played(other)) >= share)

    # Agents first: on a machine that is busy the others' starts may take longer than what is left to play.
    played(0.25)
    chain.restart("agent-a", signal.SIGKILL)
    chain.restart("agent-b")
    played(0.4)
    chain.restart("node", signal.SIGKILL)
    chain.kill_watcher()
    played(0.55)
    chain.restart("prometheus")
    chain.restart("service", signal.SIGKILL)
    played(0.8)
    chain.restart("service")
    chain.wait_until_played()
    return chain


def test_no_epoch_is_wrong_or_told_twice_and_none_is_missing(restarted: Any) -> None:
    for gpu in restarted.gpus:
        restarted.assert_epochs(gpu)


def test_no_profile_is_lost(restarted: Any) -> None:
    for gpu in restarted.gpus:
        restarted.assert_profiles(gpu)


def test_each_job_is_still_one(restarted: Any) -> None:
    jobs = restarted.jobs()
    assert {name: sorted(job["gpus"]) for name, job in jobs.items()} == {
        name: sorted(gpu.uuid for gpu in restarted.gpus if gpu.job == name) for name in ("four", "two", "one", "other")
    }
    for gpu in restarted.gpus:
        assert len({epoch["job_since"] for epoch in restarted.epochs(gpu)}) == 1
        assert jobs[gpu.job]["epochs_seen"] == len(gpu.epochs)
        assert jobs[gpu.job]["epoch_s"] == pytest.approx(gpu.period_s, rel=0.01)


def test_counters_and_predictions_are_whole_in_prometheus(restarted: Any) -> None:
    epochs = sum(len(gpu.epochs) for gpu in restarted.gpus)
    restarted.wait(lambda: sum(float(row["value"][1]) for row in restarted.query("epochcast_gpu_epochs_total")) == epochs)
    for job in restarted.jobs().values():
        assert len(restarted.query(f'epochcast_job_predicted_seconds{{training_job="{job["id"]}"}}')) > 20
