"""An HTTP server in the place of dcgm-exporter: it serves pages of its versions and fails in all the ways they do."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources import Row, Tick, open_source
from epochcast.agent.sources.dcgm_exporter import DcgmExporterSource


class Request(BaseHTTPRequestHandler):
    """A request to the exporter, to be answered in a right or a wrong way."""

    exporter: "Exporter"

    def do_GET(self) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the source may have had enough
            self.exporter.answer(self)

    def send_page(self, body: bytes, length: int | None = None, status: int = 200) -> None:
        """Send a page that says to be of this length: -1 says nothing, None the truth."""
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        if length != -1:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Exporter:
    """``answer`` is called with each request; it begins with the page of an exporter 3.x with two GPUs."""

    # 3.x: Hostname, container labels always there, blanks printed as they are. 4.x with DCGM 4.6: hostname, uuid, new names.
    # 4.9: the GPUs of 3.x by newer names in base units, another label for the driver, no blanks.
    page_3, page_4, page_4_9, page_mig = (
        Path(__file__).with_name(f"page_{name}.prom").read_text() for name in ("3", "4", "4_9", "mig")
    )

    def __init__(self) -> None:
        self.answer: Callable[[Request], None]
        self.serve(self.page_3)
        self.start()

    def start(self) -> None:
        handler = type("Handler", (Request,), {"exporter": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"

    def serve(self, page: str) -> None:
        """Answer with this page from now on."""
        self.answer = lambda request: request.send_page(page.encode())

    def open(self, only: frozenset[str] | None = None, **settings: Any) -> DcgmExporterSource:
        """Open the source that reads this exporter."""
        source = open_source("dcgm-exporter", Config(exporter=self.url, **settings), only)
        assert isinstance(source, DcgmExporterSource)
        return source

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    server = Exporter()
    yield server
    server.close()


@pytest.fixture(scope="session")
def read() -> Callable[..., list[Row]]:
    """Read a source at this second."""
    return lambda source, second=0.0: list(source.read(Tick(1000.0 + second, second, True, second == 0)))


@pytest.fixture(scope="session")
def values() -> Callable[[DcgmExporterSource, Row], dict[str, float]]:
    """The values of a row by metric."""
    return lambda source, row: dict(
        zip([metric.name for metric in source.devices[row.device].metrics], row.values, strict=True)
    )
