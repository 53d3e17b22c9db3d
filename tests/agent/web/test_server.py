"""The agent's server: its settings, and ticks before answers."""

import concurrent.futures
import threading
from collections.abc import Iterable
from typing import Any

import pytest

from epochcast.agent import ticks_first as ticking
from epochcast.agent.ticks_first import ticks_first


def test_it_answers_as_many_at_once_as_its_setting_says(serve: Any, fetch: Any, hello: Any) -> None:
    together = threading.Barrier(3)

    def slow(environ: Any, start_response: Any) -> Iterable[bytes]:
        together.wait(10)
        return hello(environ, start_response)

    listening = serve(slow, connections=3)
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: fetch(listening), range(6)))
    assert [(status, headers["Server"]) for status, headers, _ in answers] == [(200, "epochcast-agent")] * 6
    assert listening.limits.connections == 3


def test_an_answer_waits_while_a_tick_is_read_but_not_for_ever(serve: Any, monkeypatch: pytest.MonkeyPatch, fetch: Any) -> None:
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 60.0)
    listening = serve()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with ticks_first:
            waiting = pool.submit(fetch, listening)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        assert waiting.result(timeout=10)[0] == 200
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 0.01)
    with ticks_first:  # hangs in the driver
        assert fetch(listening)[0] == 200
