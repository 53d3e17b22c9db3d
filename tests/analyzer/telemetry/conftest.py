"""A real Prometheus, whose past promtool has written; a server that answers as a test says, as real ones fail."""

import json
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest

Line = tuple[str, dict[str, str], float, float]  # name, labels, value, unix seconds


class Request(NamedTuple):
    """What was asked: of a POST the parameters are those of its body."""

    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


# A body, or a status and a body, or those and headers; a body of several pieces is sent piece by piece.
Reply = Any


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[Request], Reply]], str]]:
    """Start servers, each with a function that answers; what comes back is its address."""
    with ExitStack() as stack:

        def start(answer: Callable[[Request], Reply]) -> str:
            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    parts = urlsplit(self.path)
                    length = int(self.headers.get("Content-Length", 0))
                    text = self.rfile.read(length).decode() if length else parts.query
                    reply = answer(Request(parts.path, parse_qs(text), dict(self.headers)))
                    status, body, headers = (*reply, {})[:3] if isinstance(reply, tuple) else (200, reply, {})
                    self.send_response(status)
                    for name, value in headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    with suppress(ConnectionError):
                        for piece in [body] if isinstance(body, bytes | str) else body:
                            self.wfile.write(piece.encode() if isinstance(piece, str) else piece)
                            self.wfile.flush()

                do_POST = do_GET  # noqa: N815

                def log_message(self, *_: object) -> None:
                    pass

            server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
            thread.start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


@pytest.fixture(params=["prometheus", "victoria-metrics"])
def past(request: pytest.FixtureRequest, database: Callable[..., Any]) -> Callable[[Iterable[Line]], str]:
    """Start a database that holds these samples; what comes back is its address."""

    def start(lines: Iterable[Line]) -> str:
        series = [
            (f"{name}{{{','.join(f'{key}={json.dumps(label)}' for key, label in labels.items())}}} {value!r}", moment)
            for name, labels, value, moment in lines
        ]
        if request.param == "victoria-metrics":
            return _imported(database("victoria-metrics"), [f"{text} {round(moment * 1000)}" for text, moment in series])
        return str(database("prometheus", past=[f"{text} {moment:.3f}" for text, moment in series]).url)

    return start


def _imported(victoria: Any, lines: list[str]) -> str:
    """Its address, once the samples can be queried."""
    body = "\n".join([*lines, ""]).encode()
    urllib.request.urlopen(urllib.request.Request(f"{victoria.url}/api/v1/import/prometheus", body), timeout=60).close()
    urllib.request.urlopen(f"{victoria.url}/internal/force_flush", timeout=60).close()
    return str(victoria.url)
