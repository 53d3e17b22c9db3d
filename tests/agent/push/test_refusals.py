"""A store that fails, asks for time, refuses or is not there."""

import logging
import time
from typing import Any

import pytest

from epochcast.agent.config import Push
from epochcast.agent.push import Pusher


def test_a_server_error_is_tried_again_oldest_first(
    receiver: Any, caplog: pytest.LogCaptureFixture, node: Any, figures: Any, until: Any
) -> None:
    receiver.answers = [(500, {}, "no disk\nmore"), (503, {}, "")]
    node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    until(lambda: receiver.samples == 5)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(5))
    seen = figures(pusher)
    assert (seen["retries_total"], seen["requests_total 500"], seen["requests_total 503"]) == (2, 1, 1)
    assert (seen["queue_samples"], seen["dropped_samples_total"], seen["rejected_samples_total"]) == (0, 0, 0)
    assert seen["last_success_timestamp_seconds"] == pytest.approx(time.time(), abs=60)
    (message,) = caplog.messages
    assert "HTTP 500: no disk)" in message
    assert "tenant" not in message  # a query may hold a secret


def test_a_store_that_asks_for_time_is_left_alone_for_that_long(receiver: Any, node: Any, figures: Any, until: Any) -> None:
    receiver.answers = [(429, {"Retry-After": "2"}, "slow down")]
    node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    until(lambda: receiver.samples == 5)
    pusher.stop()
    assert receiver.times[1] - receiver.times[0] >= 2
    assert figures(pusher)["requests_total 429"] == 1


@pytest.mark.parametrize("header", ["soon", "-5", "99999999999", "Fri, 31 Dec 1999 23:59:59 GMT"])
def test_a_strange_retry_after_delays_neither_the_stop_nor_for_ever(receiver: Any, header: str, node: Any, until: Any) -> None:
    receiver.answers = [(429, {"Retry-After": header}, "")]
    node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    until(lambda: pusher.sender.retries or receiver.samples)
    pusher.stop()
    assert receiver.samples == 6


def test_what_the_store_refuses_is_counted_logged_once_and_not_sent_again(
    receiver: Any, caplog: pytest.LogCaptureFixture, node: Any, figures: Any, until: Any
) -> None:
    receiver.answers = [(400, {}, "out of order sample\nsecond line"), (413, {}, "")]
    store = node.add_store("power", ticks=5)
    pusher = receiver.pusher(node)
    for first, code in ((5, "400"), (10, "413"), (15, "204")):
        until(lambda code=code: figures(pusher).get(f"requests_total {code}"))
        store.add_ticks(first, 5)
    pusher.stop()
    assert [value for _, value in receiver.values("epochcast_gpu_power_watts")] == list(range(10, 20))
    seen = figures(pusher)
    assert (seen["rejected_samples_total"], seen["samples_total"], seen["retries_total"]) == (10, 10 + 1, 0)
    assert [message for message in caplog.messages if "HTTP 400: out of order sample)" in message] == caplog.messages


def test_a_redirect_is_refused_for_it_would_take_the_credentials_elsewhere(receiver: Any, node: Any, figures: Any) -> None:
    receiver.answers = [(307, {"Location": "/elsewhere"}, "")]
    node.add_store("power", ticks=5)
    assert figures(receiver.push_all(node))["rejected_samples_total"] == 6
    assert len(receiver.headers) == 1


def test_nothing_listens(caplog: pytest.LogCaptureFixture, node: Any, figures: Any) -> None:
    caplog.set_level(logging.WARNING)
    node.add_store("power", ticks=5)
    pusher = Pusher(node, Push(url="http://127.0.0.1:1/write"))
    pusher.start()
    pusher.stop()
    assert figures(pusher)["requests_total error"] == 1
    assert figures(pusher)["queue_samples"] == 6
    assert "last_success_timestamp_seconds" not in figures(pusher)
