"""The agent's server: its settings, and ticks before answers."""

import concurrent.futures
from typing import Any

import pytest

from epochcast.agent import ticks_first as ticking
from epochcast.agent.ticks_first import ticks_first


def test_an_answer_waits_while_a_tick_is_read_but_not_for_ever(serve: Any, monkeypatch: pytest.MonkeyPatch, fetch: Any) -> None:
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 60.0)
    listening = serve(connections=3)
    assert listening.limits.connections == 3
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with ticks_first:
            waiting = pool.submit(fetch, listening)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=0.3)
        status, headers, _ = waiting.result(timeout=60)
        assert (status, headers["Server"]) == (200, "epochcast-agent")
    monkeypatch.setattr(ticking, "LONGEST_WAIT_S", 0.01)
    with ticks_first:  # hangs in the driver
        assert fetch(listening)[0] == 200
