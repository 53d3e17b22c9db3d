"""One iteration as events in time, and as a Chrome trace (opens in Perfetto and chrome://tracing)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from epochcast.common.files import write_whole


class TimelineEvent(NamedTuple):
    """What a rank does from ``start`` to ``end``, in seconds from the start of the iteration.

    ``phase`` is ``forward``, ``backward``, ``send activation``, ``send gradient`` or what comes after them; ``chunk`` and
    ``micro_batch`` are None where the event is of the rank as a whole. A rank computes one thing at a time, next to one
    transfer in each direction.
    """

    rank: int
    chunk: int | None
    micro_batch: int | None
    phase: str
    start: float
    end: float


_THREADS = ("compute", "send activation", "send gradient")


def write_chrome_trace(path: Path, events: Sequence[TimelineEvent], name: str) -> Path:
    """Write a timeline in the Trace Event Format: a process per rank, threads for computing and for sending either way; µs.

    Raises:
        InputError: the file cannot be written.
    """
    entries: list[dict[str, Any]] = []
    for rank in sorted({event.rank for event in events}):
        entries.append(_named("process_name", rank, 0, f"pipeline rank {rank}"))
        entries += [_named("thread_name", rank, thread, called) for thread, called in enumerate(_THREADS)]
    entries += map(_entry, events)
    seconds = max(event.end for event in events)
    trace = {"traceEvents": entries, "displayTimeUnit": "ms", "otherData": {"name": name, "seconds": seconds}}
    return write_whole(path, lambda file: file.write(json.dumps(trace).encode("utf-8")))


def _named(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": thread, "args": {"name": name}}


def _entry(event: TimelineEvent) -> dict[str, Any]:
    details = {"chunk": event.chunk, "micro_batch": event.micro_batch}
    return {
        "ph": "X",
        "name": event.phase if event.micro_batch is None else f"{event.phase} {event.micro_batch}",
        "cat": event.phase,
        "pid": event.rank,
        "tid": _THREADS.index(event.phase) if event.phase in _THREADS else 0,
        "ts": event.start * 1e6,
        "dur": (event.end - event.start) * 1e6,
        "args": {key: value for key, value in details.items() if value is not None},
    }
