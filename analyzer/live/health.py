"""How a watcher and its telemetry sources are: what goes through the store to whoever exports metrics."""

from __future__ import annotations

from dataclasses import dataclass


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
    """

    kind: str
    name: str
    up: bool = False
    error: str = ""
    polls: int = 0
    errors: int = 0
    newest: float | None = None
    lag_s: float | None = None


@dataclass
class WatcherHealth:
    """How a watcher is.

    Attributes:
        told: unix seconds at which this was true.
        began: unix seconds at which the watcher started; counters are of its run.
        gpus: whose detector runs here.
        backlog: samples read that wait for the detectors.
        dropped: samples dropped since nothing took them for too long; a counter.
        cpu_s: CPU seconds spent in detectors; a counter.
        store_errors: writes to the state that failed; a counter.
    """

    told: float = 0.0
    began: float = 0.0
    gpus: int = 0
    backlog: int = 0
    dropped: int = 0
    cpu_s: float = 0.0
    store_errors: int = 0
