"""One iteration as events in time, and as a Chrome trace (opens in Perfetto and chrome://tracing)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from epochcast.common.files import write_whole


class TimelineEvent(NamedTuple):
    """What a rank does from ``start`` to ``end``, in seconds from the start of the iteration.

    ``phase`` is ``forward``, ``backward``, ``send activation``, ``send gradient`` or a phase added by
    :meth:`PipelineTimeline.then`; ``chunk`` and ``micro_batch`` are None where the event is of the rank as a whole.
    """

    rank: int
    chunk: int | None
    micro_batch: int | None
    phase: str
    start: float
    end: float


@dataclass(frozen=True)
class PipelineTimeline:
    """One iteration of a pipeline.

    Attributes:
        ranks: pipeline ranks.
        events: what the ranks compute and wait for; those of one rank follow each other in time.
        sends: transfers to neighbours, next to the computation; those of one rank in one direction follow each other.
    """

    ranks: int
    events: tuple[TimelineEvent, ...]
    sends: tuple[TimelineEvent, ...] = ()

    @cached_property
    def seconds(self) -> float:
        """Seconds until the last rank is done."""
        return max(event.end for event in self.events)

    def busy(self, rank: int) -> float:
        """Seconds in which a rank has something to do."""
        return sum(event.end - event.start for event in self.events if event.rank == rank)

    def then(self, phase: str, seconds: Sequence[float]) -> PipelineTimeline:
        """Let each rank do something of ``seconds[rank]`` after all else that it does, such as the optimizer step."""
        ends = [0.0] * self.ranks
        for event in self.events:
            ends[event.rank] = event.end
        steps = [TimelineEvent(rank, None, None, phase, ends[rank], ends[rank] + seconds[rank]) for rank in range(self.ranks)]
        return replace(self, events=(*self.events, *steps))


_THREADS = {"send activation": 1, "send gradient": 2}
_THREAD_NAMES = ("compute", "send activations", "send gradients")


def chrome_trace(timeline: PipelineTimeline, name: str) -> dict[str, Any]:
    """The timeline in the Trace Event Format: a process per rank, threads for computing and for sending either way; µs."""
    entries: list[dict[str, Any]] = []
    for rank in range(timeline.ranks):
        entries.append(_named("process_name", rank, 0, f"pipeline rank {rank}"))
        entries += [_named("thread_name", rank, thread, called) for thread, called in enumerate(_THREAD_NAMES)]
    entries += [_entry(event) for event in (*timeline.events, *timeline.sends)]
    return {"traceEvents": entries, "displayTimeUnit": "ms", "otherData": {"name": name, "seconds": timeline.seconds}}


def _named(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": rank, "tid": thread, "args": {"name": name}}


def _entry(event: TimelineEvent) -> dict[str, Any]:
    details = {"chunk": event.chunk, "micro_batch": event.micro_batch}
    return {
        "ph": "X",
        "name": event.phase if event.micro_batch is None else f"{event.phase} {event.micro_batch}",
        "cat": event.phase,
        "pid": event.rank,
        "tid": _THREADS.get(event.phase, 0),
        "ts": event.start * 1e6,
        "dur": (event.end - event.start) * 1e6,
        "args": {key: value for key, value in details.items() if value is not None},
    }


def write_chrome_trace(path: Path, timeline: PipelineTimeline, name: str) -> Path:
    """Write the trace of a timeline as JSON.

    Raises:
        InputError: the file cannot be written.
    """
    text = json.dumps(chrome_trace(timeline, name))
    return write_whole(path, lambda file: file.write(text.encode("utf-8")))
