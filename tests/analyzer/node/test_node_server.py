"""The node analyzer's HTTP server: what comes in numbers keeps nobody else out."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

import pytest

from epochcast.analyzer.node import process
from epochcast.analyzer.node.config import NodeConfig

QUESTION = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


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


def test_too_many_are_turned_away_until_one_has_ended(connect: Callable[[], socket.socket]) -> None:
    for _ in range(32):
        connect().sendall(QUESTION[:-2])
    assert connect().recv(100).startswith(b"HTTP/1.1 503 ")
    give_up, answered = time.monotonic() + 30, b""
    while not answered.startswith(b"HTTP/1.1 200 ") and time.monotonic() < give_up:
        time.sleep(0.05)
        answered = answer(connect())
    assert b"Server: epochcast-node" in answered
    assert b"hello " in answered


def test_no_connection_takes_more_than_a_minute_nor_ten_seconds_in_silence() -> None:
    assert process.LIMITS.request_s + process.LIMITS.answer_s <= 60
    assert max(process.LIMITS.request_s, process.LIMITS.silence_s) <= 10
