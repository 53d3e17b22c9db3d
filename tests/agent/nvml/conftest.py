"""The sources ``nvml`` and ``gpm`` over a stub libnvidia-ml compiled from C: the real binding, the real structures, no GPU."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pynvml
import pytest

from epochcast.agent.config import Config
from epochcast.agent.sources import Tick
from epochcast.agent.sources.nvml import NvmlSource


@pytest.fixture
def open_kind(nvml_driver: Any) -> Iterator[Callable[..., Any]]:
    """Open sources of a class over the stub, in this scenario where one is given; they are closed after the test."""
    with ExitStack() as stack:

        def start(kind: Any, scenario: str | None = None, only: frozenset[str] | None = None, **settings: Any) -> Any:
            if scenario is not None:
                nvml_driver(scenario)
            source = kind(Config(**settings), only)
            stack.callback(source.close)
            return source

        yield start


@pytest.fixture
def open_source(open_kind: Callable[..., Any]) -> Callable[..., NvmlSource]:
    return partial(open_kind, NvmlSource)


@pytest.fixture
def lacking(nvml_driver: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Make the driver an old one that lacks the functions whose names match."""

    def lack(pattern: str) -> None:
        class OldLibrary:
            def __getitem__(self, name: str) -> Any:
                if re.search(pattern, name):
                    raise AttributeError(name)
                return library[name]

            def __getattr__(self, name: str) -> Any:
                return getattr(library, name)

        library = pynvml.nvmlLib
        monkeypatch.setattr(pynvml, "nvmlLib", OldLibrary())

    return lack


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
