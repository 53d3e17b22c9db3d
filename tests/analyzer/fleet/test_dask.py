"""Batches on a real Dask cluster: what hangs is ended, what is lost is done again, and neither for ever."""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from epochcast.analyzer.fleet import dask_cluster
from epochcast.analyzer.fleet.dask_cluster import DaskCluster
from epochcast.analyzer.fleet.execution import FleetError, in_batches, worked_on

from ...processes import wait_until
from .dask_processes import Cluster

sys.path.append(str(Path(__file__).parent))  # workers import what they run by its name
from deeds import done

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Of one worker under a nanny, as `dask worker` starts it; one that is lost three times is not tried again."""
    cluster = Cluster(tmp_path_factory.mktemp("dask"), "--nanny", allowed_failures=0)
    yield cluster
    cluster.stop()


def results(
    cluster: Cluster, traces: Sequence[str], *, most: int = 2, seconds: float = 60.0, function: Callable[..., list[str]] = done
) -> list[str]:
    workers = DaskCluster(cluster.address)
    found: list[str] = []
    batches = in_batches(traces, len, most=most, most_bytes=10**6)
    try:
        for each in worked_on(
            batches, function, workers, seconds_of=lambda _: seconds, failed=lambda trace, why: [f"{trace}: {why}"]
        ):
            found += each
    finally:
        workers.close(at_once=True)
    return sorted(found)


def test_what_hangs_in_c_code_is_ended_and_the_worker_stays(cluster: Cluster) -> None:
    worker = results(cluster, ["parent"])
    found = results(cluster, ["a", "hang", "b"], most=1, seconds=1.5)
    assert found[:2] == ["a", "b"]
    assert found[2].startswith("hang: it took too long")
    assert results(cluster, ["parent"]) == worker


def test_a_trace_that_ends_its_process_fails_alone(cluster: Cluster) -> None:
    worker = results(cluster, ["parent"])
    found = results(cluster, ["a", "die", "b", "c"])
    assert found[:3] == ["a", "b", "c"]
    assert found[3].startswith("die: 3 processes that worked on it ended, the last by ProcessExpired")
    assert len(found) == 4
    assert results(cluster, ["parent"]) == worker


def test_a_trace_that_ends_its_worker_is_given_up_and_the_others_are_done(cluster: Cluster) -> None:
    found = results(cluster, ["kill", "a", "b"])
    assert found[:2] == ["a", "b"]
    assert found[2].startswith("kill: 3 processes that worked on it ended, the last by KilledWorker: Attempted to run task")
    assert len(found) == 3


def test_what_a_lost_worker_had_is_done_by_the_others(cluster: Cluster) -> None:
    cluster.add_worker("--no-nanny")
    names = [f"slow{number}" for number in range(12)]
    lost: list[str] = []

    def killed() -> Iterator[str]:
        for number, name in enumerate(names):
            if number == 8:  # both have batches by now
                lost.extend(str(child.pid) for child in psutil.Process(cluster.workers[-1].pid).children())
                cluster.kill_worker(-1)
            yield name

    assert results(cluster, killed(), most=1) == sorted(names)  # type: ignore[arg-type]
    assert lost
    assert not any(psutil.pid_exists(int(pid)) for pid in lost)  # they do not outlive their worker


def test_a_worker_without_the_code_ends_the_run_with_a_sentence(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "newer_version.py").write_text("def done(batch):\n    return list(batch)\n")
    monkeypatch.syspath_prepend(tmp_path)
    from newer_version import done as newer

    with pytest.raises(FleetError, match=r"cannot do this work .*deserialization.*; install the same version"):
        results(cluster, ["a"], function=newer)


def test_a_process_beside_a_worker_ends_when_there_is_no_more_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_cluster, "_IDLE_S", 0.5)
    beside = dask_cluster._ProcessBeside()
    (first,) = beside.work(done, ["pid"], 60.0)
    wait_until(lambda: not psutil.pid_exists(int(first)))
    (second,) = beside.work(done, ["pid"], 60.0)
    assert second not in (first, str(os.getpid()))
