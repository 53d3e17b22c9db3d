"""The node analyzer's HTTP server: what comes in numbers keeps nobody else out."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.node import process
from epochcast.analyzer.node.config import NodeConfig

QUESTION = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch, running: Any, hello: Any) -> Iterator[Callable[[], socket.socket]]:
    monkeypatch.setattr(process, "LIMITS", replace(process.LIMITS, request_s=0.3))
    server = running(process._listen(NodeConfig(port=0), hello))
    with ExitStack() as opened:
        yield lambda: opened.enter_context(socket.create_connection(("127.0.0.1", server.server_port), timeout=30))


def answer(client: socket.socket) -> bytes:
    with suppress(ConnectionError):  # turned away before the question was read
        client.sendall(QUESTION)
        return b"".join(iter(lambda: client.recv(1000), b""))
    return b""


def test_those_who_never_ask_keep_nobody_out(connect: Callable[[], socket.socket]) -> None:
    for _ in range(300):
        connect().sendall(QUESTION[:-2])
    answered = answer(connect())
    assert answered.startswith(b"HTTP/1.1 200 ")
    assert b"Server: epochcast-node" in answered
    assert b"hello " in answered


def test_no_connection_takes_more_than_a_minute_nor_ten_seconds_in_silence() -> None:
    assert process.LIMITS.request_s + process.LIMITS.answer_s <= 60
    assert max(process.LIMITS.request_s, process.LIMITS.silence_s) <= 10
