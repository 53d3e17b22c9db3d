"""HTTP: many clients, slow ones, strange ones."""

import concurrent.futures
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from epochcast.common.authentication import bearer_token
from epochcast.common.errors import InputError


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_it_answers_on_both_families(serve: Any, host: str, fetch: Any) -> None:
    try:
        listening = serve(host=host)
    except InputError:
        if host == "::1":
            pytest.skip("no IPv6 on this machine")
        raise
    status, headers, body = fetch(listening, "/x")
    assert (status, body, headers["Server"]) == (200, b"hello /x", "some-server")


def test_a_port_in_use_and_an_address_of_others_are_one_sentence(serve: Any) -> None:
    port = serve().server_address[1]
    with pytest.raises(InputError, match=rf"^port {port} of 127.0.0.1 is in use; choose another with --port"):
        serve(port=port)
    with pytest.raises(
        InputError, match=r"^port 0 of 192.0.2.1 cannot be used for listening \(Cannot assign .*\); choose others with --host"
    ):
        serve(host="192.0.2.1")


def test_no_more_requests_at_once_than_threads_and_the_others_wait_their_turn(serve: Any, fetch: Any, hello: Any) -> None:
    lock = threading.Lock()
    at_once = most = 0
    three = threading.Barrier(3)

    def slow(environ: Any, start_response: Any) -> Iterable[bytes]:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        three.wait(60)
        time.sleep(0.02)
        with lock:
            at_once -= 1
        return hello(environ, start_response)

    listening = serve(slow, connections=3)
    with concurrent.futures.ThreadPoolExecutor(18) as pool:
        answers = list(pool.map(lambda _: fetch(listening), range(18)))
    assert [status for status, _, _ in answers] == [200] * 18
    assert most == 3


def test_beyond_those_who_may_wait_it_says_come_back(serve: Any, fetch: Any, hello: Any, until: Any) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def stuck(environ: Any, start_response: Any) -> Iterable[bytes]:
        asked.set()
        go_on.wait(60)
        return hello(environ, start_response)

    listening = serve(stuck, connections=1, waiting=1)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(fetch, listening)
        assert asked.wait(60)
        second = pool.submit(fetch, listening)  # waits
        until(lambda: listening._requests == 2)
        status, headers, _ = fetch(listening)
        go_on.set()
        assert (status, headers["Retry-After"]) == (503, "1")
        assert (first.result()[0], second.result()[0]) == (200, 200)
    assert fetch(listening)[0] == 200


def test_a_client_that_drips_its_request_is_cut_off(serve: Any, fetch: Any) -> None:
    listening = serve(connections=1, request_s=0.5)
    with socket.create_connection(listening.server_address[:2], timeout=60) as dripping:
        dripping.sendall(b"GET / HTTP/1.1\r\n")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            other = pool.submit(fetch, listening)  # the only thread is taken by the one that drips
            cut = False
            for _ in range(1200):
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


@contextmanager
def strangers(server: Any, number: int, addresses: list[str]) -> Iterator[list[socket.socket]]:
    """Open connections that never send a whole request; each second one drips a header every 0.2 s."""
    opened: list[socket.socket] = []
    stop = threading.Event()

    def drip() -> None:
        while not stop.wait(0.2):
            for connection in opened[::2]:
                with suppress(OSError):
                    connection.send(b"X-Drip: 1\r\n")

    dripping = threading.Thread(target=drip)
    try:
        for place in range(number):
            source = (addresses[place % len(addresses)], 0)
            opened.append(socket.create_connection(server.server_address[:2], timeout=60, source_address=source))
            if place % 2 == 0:
                opened[-1].send(b"GET / HTTP/1.1\r\n")
        dripping.start()
        yield opened
    finally:
        stop.set()
        dripping.join()
        for connection in opened:
            connection.close()


@pytest.mark.parametrize("addresses", [["127.0.0.2", "127.0.0.3"], ["127.0.0.1"]], ids=["others", "the same address"])
def test_strangers_that_never_ask_keep_nobody_waiting(serve: Any, fetch: Any, addresses: list[str], until: Any) -> None:
    listening = serve(connections=2, request_s=60.0)
    with strangers(listening, 600, addresses) as opened:
        for _ in range(20):
            assert fetch(listening, "/x")[0] == 200
        until(lambda: len(listening._clients) <= len(addresses) * listening.limits.open_per_address)
        assert opened[0].recv(1) == b""  # the oldest made room
        opened[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # the newest did not have to
            opened[-1].recv(1)


def test_of_all_connections_those_of_the_busiest_address_make_room(serve: Any, fetch: Any, until: Any) -> None:
    listening = serve(request_s=60.0, open=10, open_per_address=8)
    with (
        strangers(listening, 2, ["127.0.0.3"]) as few,
        strangers(listening, 8, ["127.0.0.2"]) as many,
    ):
        assert fetch(listening)[0] == 200
        until(lambda: len(listening._clients) < 10)
        assert many[0].recv(1) == b""
        for connection in few:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)


def test_health_waits_for_nobody(serve: Any, fetch: Any, hello: Any, until: Any) -> None:
    go_on = threading.Event()

    def stuck(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            go_on.wait(60)
        return hello(environ, start_response)

    listening = serve(stuck, connections=1, waiting=1, before_answer=lambda: None, health=frozenset({"/healthz"}))
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        others = [pool.submit(fetch, listening) for _ in range(2)]
        until(lambda: listening._requests == 2)
        assert fetch(listening)[0] == 503
        assert fetch(listening, "/healthz")[2] == b"hello /healthz"
        go_on.set()
        assert [other.result()[0] for other in others] == [200, 200]


def test_who_takes_an_answer_slowly_costs_nobody_a_thread(serve: Any, fetch: Any, hello: Any) -> None:
    def endless(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == "/x":
            yield from hello(environ, start_response)
            return
        start_response("200 OK", [])
        while True:
            yield b"x" * 100_000

    listening = serve(endless, connections=1)
    with socket.create_connection(listening.server_address[:2], timeout=60) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert lazy.recv(12) == b"HTTP/1.1 200"
        assert fetch(listening, "/x")[0] == 200


@pytest.mark.parametrize("limit", ["answer_s", "silence_s"])
def test_a_client_that_does_not_take_its_answer_is_cut_off(serve: Any, fetch: Any, hello: Any, limit: str) -> None:
    ended = threading.Event()

    def endless(environ: Any, start_response: Any) -> Iterable[bytes]:
        start_response("200 OK", [])
        try:
            while True:
                yield b"x" * 100_000
        finally:
            ended.set()

    listening = serve(endless, connections=1, request_s=0.4, **{limit: 1.0})
    with socket.create_connection(listening.server_address[:2], timeout=60) as lazy:
        lazy.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert ended.wait(60)
    listening.set_app(hello)
    assert fetch(listening)[0] == 200


def test_an_answer_has_time_of_its_own(serve: Any, fetch: Any, hello: Any) -> None:
    def slow(environ: Any, start_response: Any) -> Iterable[bytes]:
        time.sleep(1.2)  # connections are looked at twice a second
        return hello(environ, start_response)

    assert fetch(serve(slow, request_s=0.2))[0] == 200


def test_a_body_that_nobody_reads_does_not_cost_the_client_its_answer(serve: Any) -> None:
    with socket.create_connection(serve().server_address[:2], timeout=60) as client:
        client.sendall(b"POST /x HTTP/1.0\r\nContent-Length: 60000\r\n\r\n")
        for _ in range(3):  # to a connection that has been closed this would raise
            time.sleep(0.1)
            client.sendall(b"x" * 20_000)
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.endswith(b"hello /x")


def test_resets_nonsense_and_endless_lines_leave_no_traceback(serve: Any, caplog: pytest.LogCaptureFixture, fetch: Any) -> None:
    listening = serve()
    for nonsense in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"x" * 70_000):
        with socket.create_connection(listening.server_address[:2], timeout=60) as connection:
            connection.sendall(nonsense)
    for length, status in ((65_000, b"200"), (66_000, b"414")):
        with socket.create_connection(listening.server_address[:2], timeout=60) as connection:
            connection.sendall(b"GET /" + b"x" * length + b" HTTP/1.1\r\n\r\n")
            assert connection.recv(100).split()[1] == status
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
    with socket.create_connection(serve().server_address[:2], timeout=60) as client:
        client.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        head, _, body = b"".join(iter(lambda: client.recv(4096), b"")).partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head and b"Connection: close" in head
    assert body == b"hello /x"


def test_closing_does_not_wait_for_clients(serve: Any, fetch: Any) -> None:
    listening = serve()
    with socket.create_connection(listening.server_address[:2], timeout=60) as silent:
        fetch(listening)
        listening.shutdown()
        listening.server_close()
        assert silent.recv(1) == b""


def test_who_may_not_ask_is_refused_by_whatever_application(serve: Any, fetch: Any, hello: Any, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token-that-nobody-guesses")
    token = bearer_token(tmp_path / "token", "send the token")
    listening = serve(authentication=token, health=frozenset({"/healthz"}), hosts=("node-7",))
    bearing = {"Authorization": "Bearer a-token-that-nobody-guesses"}
    rebound = bearing | {"Host": "evil.example"}
    for _ in range(2):
        assert [fetch(listening, path)[0] for path in ("/x", "/healthz")] == [401, 200]
        assert fetch(listening, "/x", headers=bearing | {"Host": "node-7:1"})[2] == b"hello /x"
        assert [fetch(listening, path, headers=rebound)[0] for path in ("/x", "/healthz")] == [421, 200]
        listening.set_app(hello)  # as a reload of settings does


class Trust(NamedTuple):
    """TLS of a server, and of a client that trusts it."""

    server: ssl.SSLContext
    client: ssl.SSLContext


@pytest.fixture
def trust(make_certificate: Callable[[str], tuple[Path, Path]]) -> Trust:
    certificate, key = make_certificate("some-server")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    return Trust(server, ssl.create_default_context(cafile=str(certificate)))


def test_tls_tells_where_an_answer_ends(serve: Any, trust: Trust, fetch: Any) -> None:
    listening = serve(tls=lambda: trust.server)
    assert fetch(listening, "/x", trust.client)[2] == b"hello /x"
    with (
        socket.create_connection(listening.server_address[:2], timeout=60) as raw,
        trust.client.wrap_socket(raw, server_hostname="127.0.0.1", suppress_ragged_eofs=False) as connection,
    ):
        connection.sendall(b"GET /x HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := connection.recv(1000):  # a ragged end would raise
            answer += piece
    assert answer.endswith(b"hello /x")


def test_plain_http_to_a_tls_port_is_told_so(serve: Any, trust: Trust, caplog: pytest.LogCaptureFixture, fetch: Any) -> None:
    listening = serve(tls=lambda: trust.server)
    status, _, body = fetch(listening)
    assert (status, b"HTTPS only" in body) == (400, True)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_client_that_never_shakes_hands_keeps_nobody_from_it(serve: Any, trust: Trust, fetch: Any, until: Any) -> None:
    listening = serve(tls=lambda: trust.server, connections=2, request_s=1.0)
    with socket.create_connection(listening.server_address[:2], timeout=60) as silent:
        assert fetch(listening, "/x", trust.client)[2] == b"hello /x"
        assert silent.recv(1) == b""
    until(lambda: not len(listening._clients))
