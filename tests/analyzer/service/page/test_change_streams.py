"""The stream of events that open pages hear: real connections to the running service."""

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from epochcast.analyzer.service import change_streams
from epochcast.analyzer.service.parts import Parts

from .conftest import Service, serving

Open = Callable[..., http.client.HTTPResponse]

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stream waits for long."""
    monkeypatch.setattr(change_streams, "_LOOK_S", 0.02)
    monkeypatch.setattr(change_streams, "_PAUSE_S", 0.02)


@pytest.fixture
def service(fresh_parts: Parts, hurried: None) -> Iterator[Service]:
    """One with a place for two requests, so that a stream that took one would show."""
    limits = fresh_parts.settings.limits.model_copy(update={"requests_at_once": 2})
    settings = fresh_parts.settings.model_copy(update={"limits": limits})
    with serving(replace(fresh_parts, settings=settings, registry=CollectorRegistry())) as service:
        yield service


@pytest.fixture
def ask(service: Service) -> Iterator[Open]:
    """Send a request from an address of this machine, on a connection of its own."""
    with ExitStack() as stack:

        def ask(path: str = "/changes", address: str = "127.0.0.1", **headers: str) -> http.client.HTTPResponse:
            host = service.url.removeprefix("http://")
            connection = http.client.HTTPConnection(host, timeout=20, source_address=(address, 0))
            stack.callback(connection.close)
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            stack.callback(answer.close)
            answer.end = lambda: (answer.close(), connection.close())  # type: ignore[attr-defined]
            return answer

        yield ask


def parts_of(answer: http.client.HTTPResponse, count: int) -> list[str]:
    """The next events and comments."""
    lines: list[str] = []
    while len(lines) < count:
        if line := answer.readline().decode().strip():
            lines.append(line)
    return lines


def metric(ask: Open, name: str, **labels: str) -> float:
    given = "{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}" if labels else ""
    lines = ask("/metrics").read().decode().splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{given} "))


def test_an_event_comes_at_once_and_after_each_look_at_the_fleet(service: Service, ask: Open) -> None:
    stream = ask()
    assert (stream.status, stream.headers["Content-Type"]) == (200, "text/event-stream; charset=utf-8")
    assert stream.headers["Cache-Control"] == "no-store"
    assert "default-src 'self'" in stream.headers["Content-Security-Policy"]
    assert parts_of(stream, 2) == ["retry: 5000", "data: changed"]
    for _ in range(2):
        service.parts.analysis.round()
        assert parts_of(stream, 1) == ["data: changed"]


def test_a_stream_with_nothing_to_say_says_so(ask: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_streams, "_SILENT_S", 0.1)
    assert parts_of(ask(), 4)[2:] == [": nothing new"] * 2


def test_a_stream_ends_after_its_longest_time(ask: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_streams, "_LONGEST_S", 0.2)
    assert ask().read().decode().startswith("retry: 5000\n\ndata: changed\n\n")


def test_streams_have_a_limit_of_their_own_and_leave_the_rest_alone(
    ask: Open, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    monkeypatch.setattr(change_streams, "MOST", 4)
    streams = [ask(address=address) for address in ("127.0.0.1", "127.0.0.1", "127.0.0.2")]
    for stream in streams:
        parts_of(stream, 2)
    refused = ask()  # half of them are for one address
    assert (refused.status, refused.headers["Retry-After"]) == (503, "30")
    assert "3 pages" in json.loads(refused.read())["detail"]
    streams.append(ask(address="127.0.0.3"))
    parts_of(streams[-1], 2)
    assert ask(address="127.0.0.4").status == 503
    for path in ("/", "/jobs/slurm-1234", "/api/v1/jobs", "/metrics", "/healthz"):
        assert ask(path).status == 200
    assert metric(ask, "epochcast_analyzer_open_streams") == 4
    assert metric(ask, "epochcast_analyzer_refused_requests_total", reason="busy") == 2
    streams[0].end()  # type: ignore[attr-defined]
    until(lambda: metric(ask, "epochcast_analyzer_open_streams") == 3)
    assert ask().status == 200


def test_nothing_is_left_of_streams_whose_clients_have_gone(service: Service, ask: Open, until: Callable[..., None]) -> None:
    threads, began = threading.active_count(), time.monotonic()
    streams = [ask() for _ in range(12)]
    opening_s = time.monotonic() - began
    for stream in streams:
        parts_of(stream, 2)
    state = service.server.server_state
    assert len(state.tasks) == 12
    assert threading.active_count() < threads + 6, "streams take threads; other servers of the tests may start a few"
    time.sleep(opening_s)
    for stream in streams:
        stream.end()  # type: ignore[attr-defined]
    until(lambda: not state.tasks and not state.connections)
    assert metric(ask, "epochcast_analyzer_open_streams") == 0
    answered_s = metric(ask, "epochcast_analyzer_request_seconds_sum", route="/changes")
    assert answered_s <= opening_s, "a stream takes as long as its first byte, and not as long as it is open"


def test_a_stream_needs_the_token(fresh_parts: Parts, hurried: None) -> None:
    with serving(replace(fresh_parts, token=TOKEN, registry=CollectorRegistry())) as service:
        for headers, status in (({}, 401), ({"Authorization": f"Bearer {TOKEN}"}, 200)):
            connection = http.client.HTTPConnection(service.url.removeprefix("http://"), timeout=20)
            connection.request("GET", "/changes", headers=headers)
            with connection.getresponse() as answer:
                assert answer.status == status
            connection.close()
