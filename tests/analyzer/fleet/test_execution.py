"""Batches on workers: few at a time, a worker that dies or is late fails its own trace only."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from epochcast.analyzer.fleet.execution import FleetError, LocalProcesses, in_batches, worked_on

sys.path.append(str(Path(__file__).parent))  # workers are started again, and import what they run by its name
from deeds import done


class Here:
    """Workers that are none: a batch is done when it is submitted, but reported only on request."""

    slots = 2

    def __init__(self) -> None:
        self.in_flight = self.most = self.losses = 0
        self.lose_next = 0

    def submit(self, function: object, batch: Sequence[str], seconds: float) -> "Future[list[str]]":
        future: Future[list[str]] = Future()
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if self.lose_next > 0:
            self.lose_next -= 1
            future.cancel()
            future.set_running_or_notify_cancel()
        else:
            future.set_result(list(batch))
        return future

    def check(self) -> None:
        pass

    def close(self, *, at_once: bool) -> None:
        pass


def results(workers: object, traces: Sequence[str], *, most: int = 2, seconds: float = 60.0) -> list[str]:
    found: list[str] = []
    batches = in_batches(traces, len, most=most, most_bytes=10**6)
    for each in worked_on(batches, done, workers, seconds_of=lambda _: seconds, failed=lambda trace, why: [f"{trace}: {why}"]):
        found += each
    return found


def test_a_batch_may_take_as_long_as_its_traces_together() -> None:
    allowed: list[float] = []

    class Timed(Here):
        def submit(self, function: object, batch: Sequence[str], seconds: float) -> "Future[list[str]]":
            allowed.append(seconds)
            return super().submit(function, batch, seconds)

    results(Timed(), ["a", "b", "c"], seconds=7.0)
    assert allowed == [14.0, 7.0]


def test_what_was_cancelled_with_a_lost_scheduler_is_done_again() -> None:
    workers = Here()
    workers.lose_next = 3
    assert sorted(results(workers, [f"t{n}" for n in range(9)])) == [f"t{n}" for n in range(9)]


@pytest.fixture(scope="module")
def processes() -> Iterator[LocalProcesses]:
    workers = LocalProcesses(2)
    yield workers
    workers.close(at_once=True)


def test_a_worker_that_dies_fails_its_own_trace_only(processes: LocalProcesses) -> None:
    found = sorted(results(processes, ["a", "die", "b", "c", "d"]))
    assert found[:4] == ["a", "b", "c", "d"]
    assert len(found) == 5
    assert found[4].startswith("die: 3 processes that worked on it ended, the last by ProcessExpired")


def test_a_trace_that_takes_too_long_fails_alone(processes: LocalProcesses) -> None:
    found = sorted(results(processes, ["a", "sleep", "b"], most=1, seconds=4.0))
    assert found[:2] == ["a", "b"]
    assert found[2].startswith("sleep: it took too long")


def test_a_pool_that_gave_up_is_started_anew(processes: LocalProcesses) -> None:
    (child,) = {int(one) for one in results(processes, ["pid"])}
    os.kill(child, signal.SIGKILL)  # between two batches
    time.sleep(0.5)
    assert sorted(results(processes, ["a", "b", "c"])) == ["a", "b", "c"]


def test_an_error_that_everybody_has_ends_the_run() -> None:
    class Nobody(Here):
        def submit(self, function: object, batch: Sequence[str], seconds: float) -> "Future[list[str]]":
            return Future()

        def check(self) -> None:
            raise FleetError("nobody is left")

    with pytest.raises(FleetError, match="nobody is left"):
        results(Nobody(), ["a"])
