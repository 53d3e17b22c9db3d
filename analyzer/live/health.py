"""How a watcher and its telemetry sources are. The watcher reports it past its store: the store itself may be what fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass
class SourceStatus:
    """How a telemetry source is.

    Attributes:
        kind, name: see `TelemetrySource`.
        up: the last poll succeeded.
        error: why not, in one sentence.
        polls, errors: so many so far, and of these failed; counters of the watcher's run.
        newest: unix seconds of its newest sample; None before any.
        lag_s: age of that at the last poll.
        clock_offset_s: its clock against this machine's, by the last answer that had a date; above 0 it is ahead.
    """

    kind: str
    name: str
    up: bool = False
    error: str = ""
    polls: int = 0
    errors: int = 0
    newest: float | None = None
    lag_s: float | None = None
    clock_offset_s: float | None = None


@dataclass
class WatcherHealth:
    """How a watcher is.

    Attributes:
        gpus: whose detector runs here.
        backlog: samples read that wait for the detectors.
        dropped: samples dropped since nothing took them for too long; a counter.
        cpu_s: CPU seconds spent in detectors; a counter.
        store_errors: writes to the state that failed; a counter.
        store_error: why the last write failed; empty once one has succeeded.
        turn_s: seconds that its loop has been at one thing.
    """

    gpus: int = 0
    backlog: int = 0
    dropped: int = 0
    cpu_s: float = 0.0
    store_errors: int = 0
    store_error: str = ""
    turn_s: float = 0.0


class WatcherReport(NamedTuple):
    """What a watcher says of itself; ``health`` is None before it runs."""

    health: WatcherHealth | None = None
    sources: Sequence[SourceStatus] = ()


MOST_SOURCES = 100
"""Sources that health and metrics name; of a larger fleet's, those in trouble come first and the others are counted."""


def named_sources(sources: Iterable[SourceStatus]) -> list[SourceStatus]:
    """Return at most `MOST_SOURCES`: those that do not answer first, then those whose clocks are most off, then by name."""
    ordered = sorted(sources, key=lambda each: (each.up, -abs(each.clock_offset_s or 0.0), each.kind, each.name))
    return ordered[:MOST_SOURCES]
