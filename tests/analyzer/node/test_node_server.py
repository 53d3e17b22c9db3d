"""The node analyzer's HTTP server: what drips or comes in numbers keeps nobody else out."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from epochcast.analyzer.node import server as module
from epochcast.analyzer.node.server import Server, listen

QUESTION = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


def app(environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(module, "LONGEST_CONNECTION_S", 0.3)
    with listen("127.0.0.1", 0, app) as made:
        thread = threading.Thread(target=made.serve_forever)
        thread.start()
        yield made
        made.shutdown()
        thread.join(30)


@pytest.fixture
def connect(server: Server) -> Iterator[Callable[[], socket.socket]]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=30))


def answer(client: socket.socket) -> bytes:
    with suppress(ConnectionError):  # turned away before the question was read
        client.sendall(QUESTION)
        return b"".join(iter(lambda: client.recv(1000), b""))
    return b""


def test_a_question_that_drips_is_ended(connect: Callable[[], socket.socket]) -> None:
    client, give_up = connect(), time.monotonic() + 30
    with pytest.raises(OSError, match=r"reset|pipe|abort"):
        while time.monotonic() < give_up:
            client.sendall(b"X")
            time.sleep(0.02)


def test_too_many_are_turned_away_until_one_has_ended(connect: Callable[[], socket.socket]) -> None:
    for _ in range(module.MOST_CONNECTIONS):
        connect().sendall(QUESTION[:-2])
    assert connect().recv(100).startswith(b"HTTP/1.1 503 ")
    give_up, answered = time.monotonic() + 30, b""
    while not answered.startswith(b"HTTP/1.1 200 ") and time.monotonic() < give_up:
        time.sleep(0.05)
        answered = answer(connect())
    assert answered.endswith(b"ok")
