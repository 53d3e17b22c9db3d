"""Worker processes: answers, refusals, and what becomes of a question that hangs, eats memory or ends its process."""

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.workers import Workers, WorkersBusyError

from . import questions_for_workers as ask


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    workers = Workers(1, 2 * 2**30, 20.0)
    yield workers
    workers.stop()


def test_a_question_is_answered_in_another_process_that_is_kept(workers: Workers) -> None:
    pid = workers.run(os.getpid)
    assert pid != os.getpid()
    assert workers.run(os.getpid) == pid
    assert workers.run(ask.add, 2, 3) == 5


def test_a_value_error_is_told_as_input_error_of_one_line(workers: Workers) -> None:
    with pytest.raises(InputError, match=r"^no such thing$"):
        workers.run(ask.refuse, "no such\nthing")


def test_a_bug_is_logged_with_its_traceback_and_not_told(workers: Workers, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError) as failed:
        workers.run(ask.fail)
    assert "secret" not in str(failed.value)
    assert "KeyError: 'secret'" in caplog.text


def test_memory_beyond_the_limit_is_refused_and_the_process_goes_on(workers: Workers) -> None:
    pid = workers.run(os.getpid)
    with pytest.raises(InputError, match="limit of 2 GiB"):
        workers.run(ask.allocate, 4 * 2**30)
    assert workers.run(os.getpid) == pid


def test_a_question_that_hangs_is_ended_and_counted() -> None:
    workers = Workers(1, 2 * 2**30, 1.5)
    pid = workers.run(os.getpid)
    with pytest.raises(InputError, match=r"longer than the limit of 1\.5 s"):
        workers.run(time.sleep, 60)
    assert workers.restarts == 1
    assert workers.run(os.getpid) != pid
    workers.stop()


def test_a_question_that_ends_its_process_is_told_and_counted(workers: Workers) -> None:
    before = workers.restarts
    with pytest.raises(InputError, match="worker process died"):
        workers.run(ask.end)
    assert workers.restarts == before + 1
    assert workers.run(ask.add, 1, 1) == 2


def test_a_process_that_is_killed_while_idle_is_replaced(workers: Workers) -> None:
    pid = workers.run(os.getpid)
    os.kill(pid, signal.SIGKILL)
    for _ in range(100_000):  # until the system has noticed
        try:
            other = workers.run(os.getpid)
        except InputError:
            continue
        assert other != pid
        return
    pytest.fail("no other process answers")


def test_too_many_questions_at_once_are_refused_and_the_end_is_told_to_those_that_wait() -> None:
    workers = Workers(1, 2 * 2**30, 20.0)
    busy: list[WorkersBusyError] = []

    def wait() -> None:
        try:
            workers.run(time.sleep, 60)
        except WorkersBusyError as error:
            busy.append(error)

    threads = [threading.Thread(target=wait) for _ in range(8)]
    for thread in threads:
        thread.start()
    while len(busy) < 3:
        time.sleep(0.01)
    workers.stop()
    for thread in threads:
        thread.join(30)
    told = [str(error) for error in busy]
    assert ["other requests are waiting" in sentence for sentence in told] == [True] * 3 + [False] * 5  # one works, four wait
    assert all("the service is stopping" in sentence for sentence in told[3:])


def test_a_question_after_the_end_starts_no_process() -> None:
    workers = Workers(1, 2 * 2**30, 20.0)
    workers.stop()
    with pytest.raises(WorkersBusyError, match="the service is stopping"):
        workers.run(os.getpid)
