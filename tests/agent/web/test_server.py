"""Plain HTTP: many clients, slow ones, strange ones."""

import concurrent.futures
import http.client
import logging
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import pytest

from epochcast.agent import server
from epochcast.agent import ticks_first as ticking
from epochcast.agent.config import Config
from epochcast.agent.errors import InputError
from epochcast.agent.server import listen
from epochcast.agent.ticks_first import ticks_first


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_answers_on_both_families(serve: Any, host: str, fetch: Any) -> None:
    try:
        listening = serve(host=host)
    except InputError:
        if host == "::1":
            pytest.skip("no IPv6 on this machine")
        raise
    status, headers, body = fetch(listening, "/x")
    assert (status, body, headers["Server"]) == (200, b"hello /x", "epochcast-agent")


def test_a_port_in_use_and_an_address_of_others_are_one_sentence(serve: Any, hello: Any) -> None:
    port = serve().server_address[1]
    with pytest.raises(InputError, match=rf"^port {port} of 127.0.0.1 is in use; choose another with --port"):
        listen(Config(port=port), hello)
    with pytest.raises(InputError, match=r"^port 0 of 192.0.2.1 cannot be listened on \(.*\); choose others with --host"):
        listen(Config(host="192.0.2.1", port=0), hello)


def test_no_more_requests_at_once_than_threads_and_the_others_wait_their_turn(serve: Any, fetch: Any, hello: Any) -> None:
    lock = threading.Lock()
    at_once = most = 0

    def slow(environ: Any, start_response: Any) -> Iterable[bytes]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return hello(environ, start_response)

    listening = serve(slow, connections=3)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: fetch(listening), range(20)))
    assert [status for status, _, _ in answers] == [200] * 20
    assert most == 3


def test_beyond_those_who_may_wait_it_says_come_back(
    serve: Any, monkeypatch: pytest.MonkeyPatch, fetch: Any, hello: Any
) -> None:
    monkeypatch.setattr(server, "WAITING", 1)
    asked, go_on = threading.Event(), threading.Event()

    def stuck(environ: Any, start_response: Any) -> Iterable[bytes]:
        asked.set()
        go_on.wait(10)
        return hello(environ, start_response)

    listening = serve(stuck, connections=1)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, listening)
        assert asked.wait(10)
        with socket.create_connection(listening.server_address[:2]):  # waits
            status, headers, _ = fetch(listening)
            go_on.set()
        assert (status, headers["Retry-After"]) == (503, "1")
        assert first.result()[0] == 200
    # The one that waited has gone; its place is free once the server has seen that.
    deadline = time.monotonic() + 10
    while (status := fetch(listening)[0]) == 503 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert status == 200


def test_a_client_that_drips_its_request_is_cut_off(serve: Any, monkeypatch: pytest.MonkeyPatch, fetch: Any) -> None:
    monkeypatch.setattr(server, "LONGEST_REQUEST_S", 0.5)
    listening = serve(connections=1)
    with socket.create_connection(listening.server_address[:2], timeout=10) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\n")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(fetch, listening)  # the only thread is taken by the one that drips
            cut = False
            for _ in range(200):
                try:
                    dripping.sendall(b"X-Drip: 1\r\n")
                    dripping.settimeout(0.05)
                    cut = dripping.recv(1) == b""
                except TimeoutError:
                    continue
                except OSError:
                    cut = True
                if cut:
                    break
            assert cut
            assert other.result()[0] == 200


def test_a_client_that_does_not_take_its_answer_is_cut_off(
    serve: Any, monkeypatch: pytest.MonkeyPatch, fetch: Any, hello: Any
) -> None:
    monkeypatch.setattr(server, "LONGEST_REQUEST_S", 0.4)
    monkeypatch.setattr(server, "LONGEST_ANSWER_S", 1.0)
    ended = threading.Event()

    def endless(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 100_000
        finally:
            ended.set()

    listening = serve(endless, connections=1)
    with socket.create_connection(listening.server_address[:2], timeout=10) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ended.wait(10)
    listening.set_app(hello)
    assert fetch(listening)[0] == 200


def test_a_body_that_nobody_reads_does_not_cost_the_client_its_answer(serve: Any, fetch: Any) -> None:
    assert fetch(serve(), "/x", method="POST", body=b"x" * 60_000)[2] == b"hello /x"


def test_resets_nonsense_and_endless_lines_leave_no_traceback(serve: Any, caplog: pytest.LogCaptureFixture, fetch: Any) -> None:
    listening = serve()
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000):
        with socket.create_connection(listening.server_address[:2], timeout=10) as connection:
            connection.sendall(nonsense)
    assert fetch(listening)[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_fault_of_the_application_is_logged_and_costs_one_answer(
    serve: Any, caplog: pytest.LogCaptureFixture, fetch: Any, hello: Any
) -> None:
    def faulty(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/bad":
            raise ZeroDivisionError
        return hello(environ, start_response)

    listening = serve(faulty)
    assert fetch(listening, "/bad")[0] == 500
    assert fetch(listening, "/good")[0] == 200
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "/bad" in record.getMessage()
    assert record.exc_info is not None


def test_an_answer_that_breaks_off_is_not_taken_for_whole(serve: Any, fetch: Any) -> None:
    def breaking(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "text/csv")])
        yield b"gpu,time\n"
        raise RuntimeError("the rest is lost")

    with pytest.raises(http.client.IncompleteRead):
        fetch(serve(breaking))


def test_an_old_client_gets_no_chunks(serve: Any) -> None:
    with socket.create_connection(serve().server_address[:2], timeout=10) as client:
        client.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        head, _, body = b"".join(iter(lambda: client.recv(4096), b"")).partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head and b"Connection: close" in head
    assert body == b"hello /x"


def test_closing_does_not_wait_for_clients(serve: Any, fetch: Any) -> None:
    listening = serve()
    with socket.create_connection(listening.server_address[:2], timeout=10) as silent:
        fetch(listening)
        listening.shutdown()
        listening.server_close()
        assert silent.recv(1) == b""


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
