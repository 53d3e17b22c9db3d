"""How a watcher and its telemetry sources are. The watcher reports it past its store: the store itself may be what fails."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from epochcast.analyzer.words import length

# A search takes seconds; a longer turn delays every epoch.
_LONG_TURN_S = 20.0

# As the agent's alert on late samples allows; NTP keeps clocks within milliseconds.
CLOCK_TOLERANCE_S = 10.0


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
        problems: what is wrong at what it reads, by the last answer; sentences.
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
    problems: Sequence[str] = ()


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


def problems_of(report: WatcherReport, store_error: str = "") -> list[str]:
    """Sentences on what is wrong with a watcher and its sources.

    Args:
        report: what it says.
        store_error: why another process cannot write the state either; empty where it can.
    """
    watcher, sources = report
    notes = []
    if watcher is not None and watcher.turn_s > _LONG_TURN_S:
        notes.append(f"the watcher has been processing the same samples for {watcher.turn_s:.0f} s, so epochs come late")
    # Without an error it is polled for the first time, which takes long where much of the past is read.
    notes += [error for error in dict.fromkeys(source.error for source in sources) if error]
    notes += [problem for source in sources if source.up for problem in source.problems]
    if reason := store_error or (watcher is not None and watcher.store_error):
        notes.append(f"the state cannot be written ({reason}), so these figures are old; new epochs stay in memory until then")
    return notes + _clocks(sources)


def _clocks(sources: Sequence[SourceStatus]) -> list[str]:
    """Sentences on clocks that differ from this machine's; on this machine's where all differ from it alike."""
    offsets = {f"{source.kind} {source.name}": source.clock_offset_s for source in sources if source.clock_offset_s is not None}
    off = {name: offset for name, offset in offsets.items() if abs(offset) > CLOCK_TOLERANCE_S}
    if len(off) > 1 and off == offsets and len({offset > 0 for offset in off.values()}) == 1:
        return [
            f"the clocks of all {len(off)} sources are {_against(min(off.values(), key=abs))}; check this machine's clock first"
        ]
    return [f"the clock of {name} is {_against(offset)}; synchronise both with NTP" for name, offset in off.items()]


def _against(offset: float) -> str:
    return f"{length(abs(offset))} {'ahead of' if offset > 0 else 'behind'} this machine's"
