"""Each part is ended in the middle and started again: no wrong epoch, none told twice, no profile lost, one job."""

import signal
from collections.abc import Callable
from typing import Any

import pytest

from .chain import HOLE_S, make_chain

__all__ = ["make_chain"]

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def restarted(make_chain: Callable[..., Any]) -> Any:
    """A chain of which every part was restarted, one after the other, while the recordings were played at ten times life."""
    chain = make_chain(10.0, first=0.45)
    four = [gpu for gpu in chain.gpus if gpu.job == "four"]

    def found(epochs: int) -> None:
        chain.wait(lambda: all(len(chain.epochs(gpu)) >= epochs for gpu in four))

    # By what was found on every GPU of that node, so that each restart has been got over before the next: the ring of an agent
    # that was killed and the memory of a node analyzer that is killed before it has gone on would together hold an epoch that
    # nobody has any more.
    found(4)
    chain.restart("agent-a", signal.SIGKILL)
    chain.restart("agent-b", missed_s=HOLE_S)
    found(7)
    chain.restart("node", signal.SIGKILL)
    chain.kill_watcher()
    found(9)
    chain.restart("prometheus")
    chain.restart("service", signal.SIGKILL)
    found(12)
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
        assert jobs[gpu.job]["epochs_seen"] == len(restarted.seen_whole(gpu))
        assert jobs[gpu.job]["epoch_s"] == pytest.approx(gpu.period_s, rel=0.01)


def test_counters_and_predictions_are_whole_in_prometheus(restarted: Any) -> None:
    epochs = sum(len(restarted.seen_whole(gpu)) for gpu in restarted.gpus)
    restarted.wait(lambda: sum(float(row["value"][1]) for row in restarted.query("epochcast_gpu_epochs_total")) == epochs)
    for job in restarted.jobs().values():
        assert len(restarted.query(f'epochcast_job_predicted_ratio{{training_job="{job["id"]}"}}')) == 7
