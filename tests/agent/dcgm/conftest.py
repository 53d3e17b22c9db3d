"""The source ``dcgm`` over stand-in bindings, found as the true ones are: in the folder that $DCGM_BINDINGS names.

The stand-in has what DCGM's testing/python3 has both at 3.3 and at 4.6.0 (72fa3fe), and no more than the agent uses of it.
"""

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources import Row, Tick, dcgm_engine, open_source
from epochcast.agent.sources.dcgm import DcgmSource

FAKE = Path(__file__).with_name("fake_dcgm")


@pytest.fixture
def bindings(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the stand-in, on the discovery path; afterwards no module of it is left."""
    monkeypatch.setenv("DCGM_BINDINGS", str(FAKE))
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(dcgm_engine, "_engines", {})
    yield FAKE
    for path in FAKE.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def reset(bindings: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """``reset(**changes)``: the host engine behind the bindings, as new."""
    monkeypatch.syspath_prepend(str(bindings))
    reset: Callable[..., Any] = import_module("host_engine").reset
    sys.path.remove(str(bindings))
    return reset


@pytest.fixture
def host(reset: Callable[..., Any]) -> Any:
    """A host engine of two GPUs behind the bindings."""
    return reset()


@pytest.fixture
def open_dcgm() -> Iterator[Callable[..., DcgmSource]]:
    """Open sources that are closed after the test."""
    opened: list[Any] = []

    def open_(config: Config | None = None, only: frozenset[str] | None = None) -> DcgmSource:
        opened.append(open_source("dcgm", config or Config(), only))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


@pytest.fixture(scope="session")
def read() -> Callable[..., list[Row]]:
    """Let time pass and read once a second, as the sampler does."""

    def pass_and_read(source: DcgmSource, seconds: int, start: int = 0) -> list[Row]:
        host = sys.modules["host_engine"].engine
        rows: list[Row] = []
        for second in range(start, start + seconds):
            host.advance(1.0)
            rows += source.read(Tick(host.now / 1e6, float(second), True, second % 60 == 0))
        return rows

    return pass_and_read


@pytest.fixture(scope="session")
def column() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """(times, values) of one metric, where it has values."""

    def pick(source: DcgmSource, rows: list[Row], device: int, name: str) -> tuple[np.ndarray, np.ndarray]:
        at = [metric.name for metric in source.devices[device].metrics].index(name)
        time = np.array([row.time for row in rows if row.device == device])
        values = np.array([row.values[at] for row in rows if row.device == device])
        return time[~np.isnan(values)], values[~np.isnan(values)]

    return pick
