"""A node that stands still, to be shown over HTTP; applications that are served, and requests to them."""

import http.client
import shutil
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from epochcast.agent.config import Config, Web
from epochcast.agent.sampler import Sampler
from epochcast.agent.server import Server, listen
from epochcast.agent.sources import Device, Row
from epochcast.agent.store import DeviceStore


class StillSource:
    """A source that gives nothing: a test puts rows into the stores itself."""

    hertz = 10.0
    interval = 0.1
    regular = True
    unanswering = 0
    lag = 0.0
    silent_after = 1.0
    ready_at = 0.0
    outdated = False
    recorded_rows = None
    finished = False

    def __init__(self, name: str, devices: Sequence[Device]) -> None:
        self.name = name
        self.devices = devices
        self.blanks: Counter[tuple[int, str]] = Counter()

    def read(self, _: Any) -> list[Row]:
        return []

    def close(self) -> None:
        pass


class StillNode:
    """What HTTP sees of a node; nothing moves but what a test moves."""

    def __init__(self, clock: Any, devices: Sequence[Device]) -> None:
        self.clock = clock
        self.choices: tuple[Any, ...] = ()
        self.gone: list[DeviceStore] = []
        self.facts: dict[str, Any] = {}
        sources = [
            StillSource(name, [device for device in devices if device.source == name])
            for name in dict.fromkeys(device.source for device in devices)
        ]
        self.samplers = tuple(
            Sampler(source, [DeviceStore(device, 6000, 5.0) for device in source.devices], clock, 0.005) for source in sources
        )

    @property
    def stores(self) -> list[DeviceStore]:
        return [store for sampler in self.samplers for store in sampler.stores] + self.gone

    @property
    def finished(self) -> bool:
        return bool(self.samplers) and all(sampler.finished for sampler in self.samplers)

    unanswering = 0
    config = Config()

    def static(self, uuid: str) -> Any:
        return self.facts.get(uuid, {})


@pytest.fixture
def still_node(fake_clock: Any) -> Callable[..., StillNode]:
    """Make a node of these devices that stands still at unix time 1 700 000 000, a multiple of 5 s."""
    return lambda *devices: StillNode(fake_clock(1_700_000_000.0, until=1e9), devices)


@pytest.fixture
def promtool() -> Callable[[str], tuple[int, str]]:
    """Check a page as Prometheus' own tool does; return its status and what it says."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("no promtool: install Prometheus to check the page as it does")

    def check(text: str) -> tuple[int, str]:
        done = subprocess.run([program, "check", "metrics"], input=text, capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    return check


def _hello(environ: Any, start_response: Any) -> Iterable[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return iter([b"hello ", environ["PATH_INFO"].encode()])  # no list: no Content-Length, the end must be told otherwise


@pytest.fixture(scope="session")
def hello() -> Callable[..., Iterable[bytes]]:
    """An application that greets the path it is asked for."""
    return _hello


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Serve applications on free ports until the test ends."""
    with ExitStack() as stack:

        def start(app: Any = _hello, host: str = "127.0.0.1", **web: Any) -> Server:
            listening = listen(Config(host=host, port=0, web=Web(**web)), app)
            thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            stack.callback(thread.join, timeout=10)
            stack.callback(listening.server_close)
            stack.callback(listening.shutdown)
            return listening

        yield start


@pytest.fixture(scope="session")
def fetch() -> Callable[..., tuple[int, dict[str, str], bytes]]:
    """Make one request; what comes back is (status, headers, body)."""

    def request(
        listening: Server, path: str = "/", context: ssl.SSLContext | None = None, method: str = "GET", **options: Any
    ) -> tuple[int, dict[str, str], bytes]:
        host, port = listening.server_address[:2]
        connection: http.client.HTTPConnection
        if context is None:
            connection = http.client.HTTPConnection(str(host), int(port), timeout=10)
        else:
            connection = http.client.HTTPSConnection(str(host), int(port), timeout=10, context=context)
        try:
            connection.request(method, path, **options)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    return request
