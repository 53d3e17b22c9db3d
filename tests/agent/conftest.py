"""Fixtures of the agent's tests: clocks that only tests move, and what the stub NVML is like."""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pynvml
import pytest

from epochcast.agent import choose as choosing
from epochcast.agent.config import Config
from epochcast.agent.sources import Device, Row
from epochcast.common.errors import InputError

from .stub_source import StubSource


class FakeClock:
    """Time that passes only in `wait` and when a test moves it; `wait` returns true once ``until`` (monotonic) has passed.

    ``used``: CPU seconds, which only a test moves.
    """

    def __init__(self, unix: float, until: float) -> None:
        self.now = 0.0
        self.used = 0.0
        self.until = until
        self.wall = unix

    def unix(self) -> float:
        return self.wall + self.now

    def monotonic(self) -> float:
        return self.now

    def cpu(self) -> float:
        return self.used

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.now >= self.until

    def stop(self) -> None:
        self.until = self.now


@pytest.fixture
def fake_clock() -> type[FakeClock]:
    return FakeClock


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
def nvml_environment(nvml_library: Path, nvml_scenario: NvmlScenario) -> dict[str, str]:
    """The environment of a process that finds the stub library, like in its scenario."""
    return {"LD_LIBRARY_PATH": str(nvml_library.parent), "NVML_STUB_SCENARIO": str(nvml_scenario.path)}


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


class FakeSource(StubSource):
    """A source of devices given as (uuid, index, metrics)."""

    def __init__(self, name: str, devices: list[tuple[str, int, Any]]) -> None:
        super().__init__(
            name,
            [
                Device(index, uuid, "Stub", name, metrics, unmeasured=self._unmeasured(metrics))
                for uuid, index, metrics in devices
            ],
        )
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
