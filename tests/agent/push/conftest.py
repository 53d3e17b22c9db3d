"""A node whose rows a test adds, and a store of remote write that decodes what it gets and answers as told."""

import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from epochcast.agent.catalog import Metric, catalog
from epochcast.agent.config import Push
from epochcast.agent.push import PushCollector, Pusher
from epochcast.agent.push.wire import Wire
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore

Samples = dict[tuple[tuple[str, str], ...], list[tuple[int, float]]]


class TickStore(DeviceStore):
    """The rows of a device, ten a second."""

    START = 1_790_000_000.0  # s since 1970

    def add_ticks(self, first: int, rows: int, start: float = START) -> None:
        """Add rows of consecutive ticks, each value telling its tick and its column."""
        columns = np.arange(len(self.device.metrics)) / 8
        for tick in range(first, first + rows):
            self.add(start + tick / 10, tick + columns, time.monotonic())


class FakeNode:
    """As much of a node as the pusher looks at."""

    def __init__(self) -> None:
        self.stores: list[DeviceStore] = []
        self.silent_after = 30.0

    @property
    def samplers(self) -> tuple[Any, ...]:
        source = SimpleNamespace(silent_after=self.silent_after)
        return (SimpleNamespace(source=source, stores=list(self.stores)),) if self.stores else ()

    def make_store(
        self, *metrics: str | Metric, uuid: str = "GPU-a", index: int = 0, capacity: int = 6000, instance: int | None = None
    ) -> TickStore:
        """Make the store of a GPU that is not yet on the node."""
        # A value tells its tick, so it may be any number.
        known = tuple(replace(catalog()[metric], most=math.inf) if isinstance(metric, str) else metric for metric in metrics)
        return TickStore(Device(index, uuid, "NVIDIA H200", "test", known, instance=instance), capacity, 5.0)

    def add_store(self, *metrics: str | Metric, ticks: int = 0, **device: Any) -> TickStore:
        """Add a GPU with so many rows."""
        store = self.make_store(*metrics, **device)
        store.add_ticks(0, ticks)
        self.stores.append(store)
        return store


@pytest.fixture(autouse=True)
def extra_agent_push() -> None:
    pytest.importorskip("cramjam", reason="the extra agent-push is not installed")


@pytest.fixture
def node() -> FakeNode:
    return FakeNode()


class Receiver:
    """A store: keeps what it accepts; ``answers`` are (status, headers, text) for the next requests, then 204."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.answers: list[tuple[int, dict[str, str], str]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.connections = set[Any]()
        self.accepted: Samples = {}
        self.hold = threading.Event()
        self.hold.set()
        self._snappy = import_module("cramjam").snappy
        self._request = Wire().request()._message.__class__
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.times.append(time.monotonic())
                receiver.headers.append({"path": self.path, **{name.lower(): value for name, value in self.headers.items()}})
                receiver.connections.add(self.client_address)
                receiver.hold.wait()
                status, headers, text = receiver.answers.pop(0) if receiver.answers else (204, {}, "")
                if status < 300:
                    receiver.accept(body)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if status != 204:
                    self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        scheme = "http" if context is None else "https"
        self.url = f"{scheme}://localhost:{self.server.server_port}/api/v1/write?tenant=7"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def accept(self, body: bytes) -> None:
        message = self._request.FromString(bytes(self._snappy.decompress_raw(body)))
        for series in message.timeseries:
            labels = tuple((label.name, label.value) for label in series.labels)
            kept = self.accepted.setdefault(labels, [])
            kept.extend((sample.timestamp, sample.value) for sample in series.samples)
            assert [stamp for stamp, _ in kept] == sorted({stamp for stamp, _ in kept}), "samples out of order"

    def values(self, metric: str, **labels: str) -> list[tuple[int, float]]:
        """Return the samples of one series without the marker of its end."""
        wanted = {"__name__": metric, **labels}
        (found,) = (kept for series, kept in self.accepted.copy().items() if wanted.items() <= dict(series).items())
        return [(stamp, value) for stamp, value in found if not math.isnan(value)]

    @property
    def samples(self) -> int:
        return sum(map(len, self.accepted.copy().values()))

    @property
    def markers(self) -> int:
        return sum(math.isnan(value) for kept in self.accepted.copy().values() for _, value in kept)

    def settings(self, **changes: Any) -> Push:
        """Return settings with an interval below what users may set, which would make every test here a second longer."""
        push = Push(url=self.url, **changes)
        object.__setattr__(push, "interval", 0.1)
        return push

    def pusher(self, node: FakeNode, **settings: Any) -> Pusher:
        """Start a pusher to here."""
        pusher = Pusher(node, self.settings(**settings))  # type: ignore[arg-type]
        pusher.start()
        return pusher

    def push_all(self, node: FakeNode, **settings: Any) -> Pusher:
        """Push what the node has, and stop."""
        pusher = Pusher(node, self.settings(**settings), "node7")  # type: ignore[arg-type]
        pusher.start()
        pusher.stop()
        return pusher


@pytest.fixture
def receive() -> Iterator[Callable[..., Receiver]]:
    """Start receivers, with TLS where a context is given."""
    with ExitStack() as stack:

        def start(context: ssl.SSLContext | None = None) -> Receiver:
            receiver = Receiver(context)
            stack.callback(receiver.server.server_close)
            stack.callback(receiver.server.shutdown)
            stack.callback(receiver.hold.set)
            return receiver

        yield start


@pytest.fixture
def receiver(receive: Callable[..., Receiver]) -> Receiver:
    return receive()


@pytest.fixture(scope="session")
def figures() -> Callable[[Pusher], dict[str, float]]:
    """What the pusher's families say, by name and the value of their one label."""

    def read(pusher: Pusher) -> dict[str, float]:
        registry = CollectorRegistry()
        registry.register(PushCollector(pusher))
        return {
            " ".join((sample.name.removeprefix("epochcast_agent_push_"), *sample.labels.values())): sample.value
            for family in text_string_to_metric_families(generate_latest(registry).decode())
            for sample in family.samples
        }

    return read
