"""Where samples come from: the `Source` interface, and the registry of sources.

A source is one file here and one line in `SOURCES`. It says which devices it sees and which metrics each has, and fills in
values tick by tick; it knows nothing of rings, windows or HTTP.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from epochcast.agent.catalog import Metric

if TYPE_CHECKING:
    from epochcast.agent.config import Config


@dataclass(frozen=True)
class Attribute:
    """A fact about a device that does not change during a run, and where it was read.

    ``source``: ``nvml``, ``cuda``, ``dcgm``, ``proc``, ``trace``, or ``table`` for what follows from the compute capability.
    """

    value: float | int | str
    source: str


@dataclass(frozen=True)
class Device:
    """What one GPU (or a MIG instance of one, or the host) is and what a source measures on it.

    ``index``: NVML's index of the GPU (its parent's for an instance). ``instance``: the GPU instance id of a MIG instance.
    ``source``: the name of the source that measures it. ``metrics`` gives the order of the values in a `Row`; ``unmeasured``
    maps the names of metrics that the source knows but cannot read here to the reason.
    """

    index: int
    uuid: str
    name: str
    source: str
    metrics: tuple[Metric, ...]
    instance: int | None = None
    static: Mapping[str, Attribute] = field(default_factory=dict)
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    simulated: bool = False

    @property
    def label(self) -> str:
        """Short name, unique on a node: ``0``, or ``0.7`` for GPU instance 7 of GPU 0."""
        return str(self.index) if self.instance is None else f"{self.index}.{self.instance}"


class Tick(NamedTuple):
    """One reading of a source.

    ``time``: unix seconds at which it begins, however late that is. ``elapsed``: seconds of the monotonic clock since the first
    tick was due, at the same moment. ``slow``: true once a second, when the slow tier is due.
    ``rare``: true once a minute, and at the first tick.
    """

    time: float
    elapsed: float
    slow: bool
    rare: bool

    def due(self, metric: Metric) -> bool:
        """Whether a metric of this tier is read at this tick."""
        return metric.tier == "fast" or (self.slow if metric.tier == "slow" else self.rare)


class Row(NamedTuple):
    """Values of one device at one time: ``device`` is its position in `Source.devices`, NaN means no value.

    ``time``: unix seconds at which the first of the values was read; of an average or a rate, the end of its interval. Any
    sequence of numbers will do: many rows become one array later.
    """

    device: int
    time: float
    values: Sequence[float] | NDArray[np.float64]


class Source(Protocol):
    """Fills in one tick after another. One thread calls `read`. What has a value here is what most sources have.

    ``hertz``: reads per second of wall time that it wants. ``interval``: usual seconds of sample time from row to row of a
    device; ``rows_per_interval``: usual number of rows in it, where a device's values are measured apart; ``regular``: whether
    a device that answers gives one each time, so that one that is not there was missed. ``lag``: seconds that a row may come
    after its time. ``silent_after``: seconds of wall time without a row after which a device counts as silent.
    ``ready_at``: moment of the monotonic clock before which it should not be read again.
    ``blanks``: readings that were due and gave no value, by (position of the device, name of the metric). ``counted``: GPUs
    that the driver counted when it was opened, also those that did not answer; 0: unknown. ``outdated``: its devices are no
    longer those of the node (a GPU was added, came back, was repartitioned): open it again. ``failure``: why the driver as a
    whole does not answer. ``asking``: UUID of the device whose answer is awaited now.
    ``recorded_rows``: length of the recording, None for a live source. ``finished``: no more rows will come.
    """

    name: str
    devices: Sequence[Device]
    hertz: float = 10.0
    interval: float = 0.1
    rows_per_interval: int = 1
    regular: bool = True
    lag: float = 0.0
    silent_after: float
    ready_at: float = 0.0
    blanks: Counter[tuple[int, str]]
    counted: int = 0
    outdated: bool = False
    failure: Exception | None = None
    asking: str | None = None
    recorded_rows: int | None = None
    finished: bool = False

    def read(self, tick: Tick) -> Sequence[Row]:
        """Return the rows due at this tick, each device's in the order of time; raise when no device at all could be read."""
        ...

    def take_xids(self) -> Sequence[tuple[int, int]]:
        """Return and forget the Xid errors that the driver reported: (position of the device, code), in their order."""
        return ()

    def close(self) -> None:
        """Release what the source holds: here nothing."""
        return


# One line per source: its module here and its class. Imported only when chosen: one source's needs are not another's.
# A class is called with the configuration and the UUIDs that it is to read (None: all it sees).
SOURCES = {
    "gpm": ("gpm", "GpmSource"),
    "dcgm": ("dcgm", "DcgmSource"),
    "dcgm-exporter": ("dcgm_exporter", "DcgmExporterSource"),
    "nvml": ("nvml", "NvmlSource"),
    "host": ("host", "HostSource"),
    "replay": ("replay", "ReplaySource"),
}


def open_source(name: str, config: Config, only: frozenset[str] | None = None) -> Source:
    """Return the source called ``name`` (a key of `SOURCES`), ready to read; raise InputError when it cannot work here.

    ``only``: UUIDs of the devices to read, None for all that it sees; raises InputError when it sees none of them.
    """
    module, kind = SOURCES[name]
    source: Source = getattr(import_module(f".{module}", __package__), kind)(config, only)
    return source
