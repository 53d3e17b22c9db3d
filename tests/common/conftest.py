"""Servers with limits of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from epochcast.common.http_server import Limits, Server

LIMITS = Limits(connections=8, waiting=256, request_s=10.0, answer_s=120.0, silence_s=120.0)


@pytest.fixture
def serve(running: Callable[[Server], Server], hello: Any) -> Callable[..., Server]:
    """Serve applications on free ports until the test ends; what is said of limits is put into usual ones."""

    def start(
        app: Any = hello,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: Any = None,
        authentication: Any = None,
        before_answer: Any = lambda: None,
        health: frozenset[str] = frozenset(),
        hosts: tuple[str, ...] = (),
        **limits: Any,
    ) -> Server:
        options = {"tls": tls, "authentication": authentication, "before_answer": before_answer, "health": health}
        return running(Server(host, port, app, name="some-server", limits=replace(LIMITS, **limits), hosts=hosts, **options))

    return start
