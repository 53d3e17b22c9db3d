"""Connections without a request are closed and make room, those being answered stay; whose proxy headers count."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed (extra service)")

import uvicorn

from epochcast.analyzer.service import connections, process
from epochcast.analyzer.service.config import Settings
from epochcast.analyzer.service.process import _Server, listening

from ...processes import wait_until

LARGE = 64 * 2**20
OPEN = 8
PROXY = "127.0.0.9"


async def app(scope: dict, receive: object, send: object) -> None:
    """Answers after six looks; at /large at once with more than any socket holds, at /client with the client's address."""
    body = b"xx"
    if scope["path"] == "/large":
        body = b"x" * LARGE
    elif scope["path"] == "/client":
        body = f"{scope['client'][0]}xx".encode()
    else:
        await asyncio.sleep(6 * connections.LOOK_S)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[uvicorn.Server]:
    monkeypatch.setattr(connections, "LOOK_S", getattr(request, "param", 0.1))
    monkeypatch.setattr(process, "_OPEN", OPEN)
    settings = Settings.model_validate({"port": 0, "proxies": [PROXY]})
    with listening(settings) as listener:
        made = _Server(app, listener, settings)
        thread = threading.Thread(target=made.run, kwargs={"sockets": [listener]})
        thread.start()
        yield made
        made.should_exit = True
        thread.join(30)
    assert not thread.is_alive()


Connect = Callable[[str], socket.socket]


@pytest.fixture
def connect(server: _Server) -> Iterator[Connect]:
    """Connects from an address."""
    with contextlib.ExitStack() as opened:

        def connected(address: str) -> socket.socket:
            port = server._listener.getsockname()[1]
            return opened.enter_context(socket.create_connection(("127.0.0.1", port), 30, (address, 0)))

        yield connected


@pytest.fixture
def client(connect: Connect) -> socket.socket:
    return connect("127.0.0.1")


QUESTION = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
WHO = QUESTION.replace(b"/ ", b"/client ")
LATER = 30.0
"""Seconds until a look that no test waits for."""


def answer(client: socket.socket) -> bytes:
    received = client.recv(1000)
    while received and not received.endswith(b"xx"):
        received += client.recv(1000)
    return received


def is_closed(client: socket.socket) -> bool:
    """Whether the service closes the connection; it resets one whose last bytes arrive after that."""
    try:
        return client.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", QUESTION[:-2]])
def test_a_connection_that_asks_nothing_is_closed(client: socket.socket, sent: bytes) -> None:
    client.sendall(sent)
    assert is_closed(client)


def test_an_answer_may_take_its_time_and_then_the_next_question_must_come(client: socket.socket) -> None:
    client.sendall(QUESTION)
    assert answer(client).startswith(b"HTTP/1.1 200")
    # Also keeps uvicorn from closing it as one that is kept alive for nothing.
    with contextlib.suppress(ConnectionError):
        client.sendall(QUESTION[:-2])
    assert is_closed(client)


def test_an_answer_that_is_not_taken_is_thrown_away(client: socket.socket, server: uvicorn.Server) -> None:
    client.sendall(QUESTION.replace(b"/ ", b"/large "))
    client.recv(100)
    wait_until(lambda: not server.server_state.connections)


@pytest.mark.parametrize("server", [LATER], indirect=True)
@pytest.mark.parametrize("sent", [b"", WHO[:-2]])
def test_half_sent_heads_make_room_for_a_request_of_another_address(connect: Connect, sent: bytes) -> None:
    strangers = []
    for number in range(4 * OPEN):
        strangers.append(connect(f"127.0.0.{2 + number % 2}"))
        strangers[-1].sendall(sent)
        if number % 8 == 0:
            client = connect("127.0.0.1")
            client.sendall(WHO)
            assert answer(client).endswith(b"127.0.0.1xx")
    assert is_closed(strangers[0])
    strangers[-1].sendall(WHO[len(sent) :])  # the newest may still finish its own
    assert answer(strangers[-1]).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("server", [LATER], indirect=True)
def test_an_address_has_half_of_the_connections(connect: Connect) -> None:
    first, *others = [connect("127.0.0.2") for _ in range(OPEN // 2 + 1)]
    assert is_closed(first)
    for one in others:
        one.sendall(WHO)
        assert answer(one).endswith(b"127.0.0.2xx")


def test_a_request_that_is_being_answered_makes_no_room(connect: Connect) -> None:
    waiting = connect("127.0.0.1")
    waiting.sendall(QUESTION)
    strangers = []
    for _ in range(2 * OPEN):
        strangers.append(connect("127.0.0.1"))
        strangers[-1].sendall(WHO)
        assert answer(strangers[-1]).startswith(b"HTTP/1.1 200")  # so the service has seen the one before
    assert answer(waiting).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("peer", "client"), [(PROXY, "192.0.2.1"), ("127.0.0.1", "127.0.0.1")])
def test_who_a_client_is_says_a_configured_proxy_alone(connect: Connect, peer: str, client: str) -> None:
    connection = connect(peer)
    # Clients may send the header too: the address that the proxy appended is the last.
    connection.sendall(WHO[:-2] + b"X-Forwarded-For: 203.0.113.9, 192.0.2.1\r\n\r\n")
    assert answer(connection).endswith(client.encode() + b"xx")
