"""How the service is, in one word and a sentence on each thing that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from ... import __version__
from ..answers.answer_schema import AnswerModel
from ..live.health import MOST_SOURCES, SourceStatus, WatcherReport, named_sources
from ..words import length

_MOST_NOTES = 20


class Health(AnswerModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[dict[str, Any]] = Field(
        description=f"The first {MOST_SOURCES} telemetry sources, those that do not answer before others: kind, name, up, "
        "error, age of its newest sample. `/api/v1/sources` lists all."
    )
    sources_up: int = Field(description="Telemetry sources that answered the last poll.")
    sources_down: int = Field(description="Telemetry sources that did not.")
    notes: list[str] = Field(
        description=f"What is wrong, one sentence each; of more than {_MOST_NOTES} the first, and how many more."
    )
    unavailable_backends: dict[str, str] = Field(
        default={}, description="Backends that cannot be used as the service is installed, and what each needs."
    )


# A search takes seconds; a longer turn delays every epoch.
_LONG_TURN_S = 20.0

# As the agent's alert on late samples allows; NTP keeps clocks within milliseconds.
CLOCK_TOLERANCE_S = 10.0


def of(
    *,
    gpus: int,
    jobs: int,
    report: WatcherReport,
    started: bool,
    store_error: str,
    problems: Sequence[str],
) -> Health:
    """Return the health of now.

    Args:
        gpus, jobs: how many are known.
        report: what the watcher says of itself and its sources.
        started: a first round of the analysis is over, and a source was polled.
        store_error: why the service itself cannot write the state; empty where it can.
        problems: sentences on what else is wrong.
    """
    watcher, sources = report
    notes = list(problems)
    if watcher is not None and watcher.turn_s > _LONG_TURN_S:
        notes.append(f"the watcher has been busy with the same samples for {watcher.turn_s:.0f} s, so epochs come late")
    # Without an error it is polled for the first time, which takes long where much of the past is read.
    notes += [error for error in dict.fromkeys(source.error for source in sources) if error]
    if reason := store_error or (watcher is not None and watcher.store_error):
        notes.append(
            f"the state cannot be written ({reason}), so these figures are old; new epochs are kept in memory until it can be"
        )
    notes += _clocks(sources)
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [
            f"{len(notes) - _MOST_NOTES} more; /api/v1/sources?up=false lists the sources that do not answer"
        ]
    up = sum(source.up for source in sources)
    return Health(
        status="degraded" if notes else "ok" if started else "starting",
        version=__version__,
        gpus=gpus,
        jobs=jobs,
        sources=[asdict(source) for source in named_sources(sources)],
        sources_up=up,
        sources_down=len(sources) - up,
        notes=notes,
    )


def _clocks(sources: Sequence[SourceStatus]) -> list[str]:
    """Sentences on clocks that differ from this machine's; on this machine's where all differ from it alike."""
    offsets = {f"{source.kind} {source.name}": source.clock_offset_s for source in sources if source.clock_offset_s is not None}
    off = {name: offset for name, offset in offsets.items() if abs(offset) > CLOCK_TOLERANCE_S}
    if len(off) > 1 and off == offsets and len({offset > 0 for offset in off.values()}) == 1:
        return [f"the clocks of all {len(off)} sources are {_against(min(off.values(), key=abs))}; check this machine's first"]
    return [f"the clock of {name} is {_against(offset)}; synchronise both by NTP" for name, offset in off.items()]


def _against(offset: float) -> str:
    return f"{length(abs(offset))} {'ahead of' if offset > 0 else 'behind'} this machine's"
