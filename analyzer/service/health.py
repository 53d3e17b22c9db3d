"""How the service is, in one word and a sentence on each thing that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from ... import __version__
from ..answers.answer_schema import AnswerModel
from ..live.health import SourceStatus, WatcherHealth


class Health(AnswerModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[dict[str, Any]] = Field(description="Each telemetry source: kind, name, up, error, age of its newest sample.")
    notes: list[str] = Field(description="What is wrong, one sentence each.")


# The watcher reports its health every second.
_LATE_S = 60.0


def starting() -> Health:
    """Before the first round of the analysis."""
    return Health(
        status="starting", version=__version__, gpus=0, jobs=0, sources=[], notes=["the first analysis is still running"]
    )


def failed(before: Health, error: Exception) -> Health:
    """After a round that failed: what was known, and that it is old."""
    note = f"the last analysis failed, so these figures are old: {error}"
    return before.model_copy(update={"status": "degraded", "notes": [note]})


def of(
    *,
    gpus: int,
    jobs: int,
    sources: Sequence[SourceStatus],
    watcher: WatcherHealth | None,
    configured: int,
    problems: Sequence[str],
    now: float,
) -> Health:
    """Return the health after a round.

    Args:
        gpus, jobs: how many are known.
        sources: as the watcher last reported them.
        watcher: its health then; None before its first report.
        configured: sources in the settings.
        problems: sentences on what else is wrong.
        now: unix seconds.
    """
    notes = list(problems)
    late = watcher is not None and now - watcher.told > _LATE_S
    if late and configured:
        assert watcher is not None
        notes.append(f"the watcher last reported {now - watcher.told:.0f} s ago, so these figures may be old")
    # Without an error it is polled for the first time, which takes long where much of the past is read.
    notes += [source.error for source in sources if source.error]
    if watcher is not None and watcher.store_errors:
        notes.append(f"{watcher.store_errors} writes to the state file failed; check that its disk is not full")
    begun = not configured or any(source.polls for source in sources)
    return Health(
        status="degraded" if notes else "ok" if begun else "starting",
        version=__version__,
        gpus=gpus,
        jobs=jobs,
        sources=[asdict(source) for source in sources],
        notes=notes,
    )
