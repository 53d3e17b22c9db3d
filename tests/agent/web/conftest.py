"""A node that stands still, to be shown over HTTP; applications that are served, and requests to them."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from epochcast.agent.config import Config, Web
from epochcast.agent.node import Node
from epochcast.agent.sampler import Sampler
from epochcast.agent.server import listen
from epochcast.agent.sources import Device
from epochcast.agent.store import DeviceStore
from epochcast.common.http_server import Server

from ..stub_source import StubSource


class StillNode:
    """What HTTP sees of a node; nothing moves but what a test moves."""

    def __init__(self, clock: Any, devices: Sequence[Device]) -> None:
        self.clock = clock
        self.choices: tuple[Any, ...] = ()
        self.gone: list[DeviceStore] = []
        self.facts: dict[str, Any] = {}
        sources = [
            StubSource(name, [device for device in devices if device.source == name])
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

    sources, expected, present, hears, driver_failure = (
        *(Node.sources, Node.expected, Node.present),
        *(Node.hears, Node.driver_failure),
    )
    failure, _on_bus = None, None
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


@pytest.fixture
def serve(running: Callable[[Server], Server], hello: Any) -> Callable[..., Server]:
    """Serve applications on free ports as the agent does until the test ends."""

    def start(app: Any = hello, host: str = "127.0.0.1", **web: Any) -> Server:
        return running(listen(Config(host=host, port=0, web=Web(**web)), app))

    return start
