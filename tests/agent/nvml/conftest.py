"""The source ``nvml`` over a stub libnvidia-ml compiled from C: the real binding, the real structures, no GPU."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources import Tick
from epochcast.agent.sources.nvml import NvmlSource


@pytest.fixture
def open_source(nvml_driver: Any) -> Iterator[Callable[..., NvmlSource]]:
    """Open sources over the stub; they are closed after the test."""
    opened: list[NvmlSource] = []

    def start(only: frozenset[str] | None = None, **settings: Any) -> NvmlSource:
        opened.append(NvmlSource(Config(**settings), only))
        return opened[-1]

    yield start
    for source in opened:
        source.close()


@pytest.fixture(scope="session")
def rows() -> Callable[..., dict[str, dict[str, float]]]:
    """The values of one tick by the device's label and metric."""

    def read(source: NvmlSource, elapsed: float, slow: bool = True, rare: bool = True) -> dict[str, dict[str, float]]:
        tick = Tick(1_700_000_000 + elapsed, elapsed, slow, rare)
        return {
            source.devices[row.device].label: dict(
                zip((metric.name for metric in source.devices[row.device].metrics), row.values, strict=True)
            )
            for row in source.read(tick)
        }

    return read
