"""How the service is, in one word and a sentence on each thing that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, Field

from epochcast import __version__
from epochcast.analyzer.live.health import MOST_SOURCES, SourceStatus, WatcherReport, named_sources, problems_of

_MOST_NOTES = 20


class Health(BaseModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[SourceStatus] = Field(
        description=f"The first {MOST_SOURCES} telemetry sources, failing sources first. `/api/v1/sources` lists all."
    )
    sources_up: int = Field(description="Telemetry sources that answered the last poll.")
    sources_down: int = Field(description="Telemetry sources that did not answer the last poll.")
    notes: list[str] = Field(
        description=f"What is wrong, one sentence each; of more than {_MOST_NOTES} the first, and how many more."
    )
    unavailable_backends: dict[str, str] = Field(
        default={}, description="Backends that cannot be used as the service is installed, and what each needs."
    )


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
    notes = [*problems, *problems_of(report, store_error)]
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [
            f"{len(notes) - _MOST_NOTES} more; /api/v1/sources?up=false lists the sources that do not answer"
        ]
    up = sum(source.up for source in report.sources)
    return Health(
        status="degraded" if notes else "ok" if started else "starting",
        version=__version__,
        gpus=gpus,
        jobs=jobs,
        sources=named_sources(report.sources),
        sources_up=up,
        sources_down=len(report.sources) - up,
        notes=notes,
    )
