"""Where samples come from: the `Source` interface, and the registry of sources.

A source is one file here and one line in `SOURCES`. It says which devices it sees and which metrics each has, and fills in
values tick by tick; it knows nothing of rings, windows or HTTP.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..catalog import Metric


@dataclass(frozen=True)
class Attribute:
    """A fact about a device that does not change during a run, and where it was read (``nvml``, ``proc``, ``trace``)."""

    value: float | int | str
    source: str


@dataclass(frozen=True)
class Device:
    """What one GPU (or the host) is and what a source measures on it.

    ``metrics`` gives the order of the values in a `Row`; ``unmeasured`` maps the names of metrics that the source knows but
    cannot read here to the reason.
    """

    index: int
    uuid: str
    name: str
    metrics: tuple[Metric, ...]
    static: Mapping[str, Attribute] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False


class Tick(NamedTuple):
    """One moment of the sampler's grid.

    ``time``: unix seconds, a multiple of the sampling interval. ``elapsed``: seconds of the monotonic clock since the first
    tick was due, at the moment of reading (so lateness is in it). ``slow``: true once a second, when the slow tier is due.
    """

    time: float
    elapsed: float
    slow: bool


class Row(NamedTuple):
    """Values of one device at one time: ``device`` is its position in `Source.devices`, NaN means no value."""

    device: int
    time: float
    values: NDArray[np.float64]


class Source(Protocol):
    """Fills in one tick after another.

    ``hertz``: ticks per second of wall time that it wants. ``interval``: usual seconds of sample time from row to row.
    ``silent_after``: seconds of wall time without a row after which a device counts as silent. ``recorded_rows``: length of
    the recording, None for a live source (which gives each device that answers one row per tick). ``finished``: no more rows
    will come.
    """

    name: str
    devices: Sequence[Device]
    hertz: float
    interval: float
    silent_after: float
    recorded_rows: int | None
    finished: bool

    def read(self, tick: Tick) -> Iterable[Row]:
        """Return the rows due at this tick; raise when no device at all could be read."""
        ...

    def close(self) -> None:
        """Release what the source holds."""
        ...


@dataclass(frozen=True)
class Options:
    """What a user may say about a source: the recording to replay, and how much faster than life (> 0)."""

    replay: Path | None = None
    speed: float = 1.0


# One line per source: its module here and its class. Imported only when chosen: one source's needs are not another's.
SOURCES = {
    "nvml": "NvmlSource",
    "host": "HostSource",
    "replay": "ReplaySource",
}


def open_source(name: str, options: Options) -> Source:
    """Return the source called ``name`` (a key of `SOURCES`), ready to read; raise InputError when it cannot work here."""
    source: Source = getattr(import_module(f".{name}", __package__), SOURCES[name])(options)
    return source
