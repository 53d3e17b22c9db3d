"""Connections on which nothing is asked are closed, those that wait for their answer are not."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (extra service)")

import uvicorn

from epochcast.analyzer.service import connections
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.connections import Connection
from epochcast.analyzer.service.process import _Server, listening

LARGE = 64 * 2**20


async def app(scope: dict, receive: object, send: object) -> None:
    """Answers after six looks, at /large with more than any socket holds."""
    if scope["path"] != "/large":
        await asyncio.sleep(6 * connections.LOOK_S)
    body = b"x" * (LARGE if scope["path"] == "/large" else 2)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[uvicorn.Server]:
    monkeypatch.setattr(connections, "LOOK_S", 0.1)
    settings = Settings(port=0)
    with listening(settings) as listener:
        made = _Server(app, listener, settings)
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listener]})
        thread.start()
        yield made
        made.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def client(server: uvicorn.Server) -> Iterator[socket.socket]:
    assert server.config.http is Connection
    with socket.create_connection(("127.0.0.1", server._port), timeout=30) as made:
        yield made


QUESTION = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", QUESTION[:-2]])
def test_a_connection_that_asks_nothing_is_closed(client: socket.socket, sent: bytes) -> None:
    client.sendall(sent)
    assert client.recv(100) == b""


def test_an_answer_may_take_its_time_and_then_the_next_question_must_come(client: socket.socket) -> None:
    client.sendall(QUESTION)
    received = client.recv(1000)
    while not received.endswith(b"xx"):
        received += client.recv(1000)
    assert received.startswith(b"HTTP/1.1 200")
    client.sendall(QUESTION[:-2])  # also keeps uvicorn from closing it as one that is kept alive for nothing
    assert client.recv(100) == b""


def test_an_answer_that_is_not_taken_is_thrown_away(client: socket.socket, server: uvicorn.Server) -> None:
    client.sendall(QUESTION.replace(b"/ ", b"/large "))
    client.recv(100)
    give_up = time.monotonic() + 30
    while server.server_state.connections and time.monotonic() < give_up:
        time.sleep(0.05)
    assert not server.server_state.connections
