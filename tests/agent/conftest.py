"""Fixtures of the agent's tests: clocks that only tests move, a real agent process, a stub NVML compiled from C."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent import choose as choosing
from epochcast.agent.config import Config
from epochcast.agent.errors import InputError
from epochcast.agent.sampler import Sampler
from epochcast.agent.sources import Device, Row
from epochcast.agent.store import DeviceStore

STUB = Path(__file__).with_name("nvml_stub.c")


class FakeClock:
    """Time that passes only in `wait` and when a test moves it; `wait` returns true once ``until`` (monotonic) has passed."""

    def __init__(self, unix: float, until: float) -> None:
        self.now = 0.0
        self.until = until
        self.wall = unix

    def unix(self) -> float:
        return self.wall + self.now

    def monotonic(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.until

    def stop(self) -> None:
        self.until = self.now


@pytest.fixture
def fake_clock() -> type[FakeClock]:
    return FakeClock


class AgentProcess:
    """A running ``epochcast-agent`` that has its first sample."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process = process
        self.port = port
        self.url = f"http://127.0.0.1:{port}"

    def text(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return answer.read().decode()

    def json(self, path: str) -> Any:
        return json.loads(self.text(path))

    def stop(self) -> tuple[int, str]:
        """Ask the agent to stop; return its exit status and what it wrote to stderr."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=20)
        return self.process.returncode, errors


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    """Start agents on free ports, each ready to be asked; they are stopped after the test."""
    with ExitStack() as stack:

        def start(*arguments: object, env: dict[str, str] | None = None) -> AgentProcess:
            port_file = tmp_path / "port"
            port_file.unlink(missing_ok=True)
            command = [sys.executable, "-m", "epochcast.agent", "--port", "0", "--port-file", port_file, *arguments]
            process = subprocess.Popen(
                [str(part) for part in command], stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}
            )
            stack.callback(lambda: process.poll() is None and process.communicate(timeout=20))
            stack.callback(lambda: process.poll() is None and process.terminate())
            while not port_file.exists():
                try:
                    process.wait(timeout=0.05)
                except subprocess.TimeoutExpired:
                    continue
                pytest.fail(f"the agent ended with {process.returncode}: {process.communicate()[1]}")
            return AgentProcess(process, int(port_file.read_text()))

        yield start


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stub ``libnvidia-ml.so.1``, compiled once."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the stub libnvidia-ml cannot be built")
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    flags = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", str(library), str(STUB), "-lm"], check=True)
    return library


class NvmlScenario:
    """What the stub libnvidia-ml is like (see nvml_stub.c): calling it with statements changes that within milliseconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self("")

    def __call__(self, statements: str) -> None:
        new = self.path.with_suffix(".new")
        new.write_text(statements)
        new.replace(self.path)
        time.sleep(0.002)  # the stub looks once a millisecond

    @property
    def violations(self) -> list[str]:
        """What GPM does not allow and was done all the same."""
        path = Path(f"{self.path}.violations")
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def nvml_scenario(tmp_path: Path) -> NvmlScenario:
    """The scenario for a process that finds the stub library: its ``path`` goes into $NVML_STUB_SCENARIO."""
    return NvmlScenario(tmp_path / "scenario")


@pytest.fixture
def nvml_driver(nvml_library: Path, nvml_scenario: NvmlScenario, monkeypatch: pytest.MonkeyPatch) -> NvmlScenario:
    """The scenario of the stub library in this process, where pynvml finds it."""
    monkeypatch.setenv("NVML_STUB_SCENARIO", str(nvml_scenario.path))
    monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(str(nvml_library)))
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return nvml_scenario


@pytest.fixture
def nvml_calls(nvml_library: Path, nvml_driver: NvmlScenario) -> Callable[[str], int]:
    """Tell how often a function of the stub library was called in this test."""
    library = ctypes.CDLL(str(nvml_library))
    library.nvml_stub_forget_calls()
    return lambda name: int(library.nvml_stub_calls(name.encode()))


class FakeSource:
    """A source of devices given as (uuid, index, metrics)."""

    hertz, interval, regular, lag, silent_after, ready_at = 10.0, 0.1, True, 0.0, 1.0, 0.0
    recorded_rows, finished, unanswering = None, False, 0

    def __init__(self, name: str, devices: list[tuple[str, int, Any]]) -> None:
        self.name = name
        self.blanks: Counter[tuple[int, str]] = Counter()
        self.devices = tuple(
            Device(index, uuid, "Stub", name, metrics, unmeasured=self._unmeasured(metrics)) for uuid, index, metrics in devices
        )
        self.closed = self.outdated = False
        self.absent: set[str] = set()

    def read(self, tick: Any) -> list[Row]:
        """Return a row of ones for each device that is not in ``absent``."""
        return [
            Row(position, tick.time, np.ones(len(device.metrics)))
            for position, device in enumerate(self.devices)
            if device.uuid not in self.absent
        ]

    def _unmeasured(self, metrics: Any) -> dict[str, str]:
        return {} if any(metric.name == "sm_active" for metric in metrics) else {"sm_active": "no module"}

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[FakeSource]]:
    """Make ``open_source`` see these sources by name (devices, or a sentence that refuses); list what it opens."""

    def make(**found: list[tuple[str, int, Any]] | str) -> list[FakeSource]:
        opened: list[FakeSource] = []

        def open_source(name: str, config: Config, only: frozenset[str] | None = None) -> FakeSource:
            devices = found.get(name.replace("-", "_"), f"no {name} here")
            if isinstance(devices, str):
                raise InputError(devices)
            chosen = [device for device in devices if only is None or device[0] in only]
            if not chosen:
                raise InputError(f"{name} sees none of these GPUs")
            opened.append(FakeSource(name, chosen))
            return opened[-1]

        monkeypatch.setattr(choosing, "open_source", open_source)
        return opened

    return make


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

    def __init__(self, clock: FakeClock, devices: Sequence[Device]) -> None:
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
