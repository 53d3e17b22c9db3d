"""How the service is, in one word and a sentence on each thing that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import Field

from ... import __version__
from ..answers.answer_schema import AnswerModel
from ..live.health import WatcherReport, problems_of


class Health(AnswerModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[dict[str, Any]] = Field(description="Each telemetry source: kind, name, up, error, age of its newest sample.")
    notes: list[str] = Field(description="What is wrong, one sentence each.")
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
    return Health(
        status="degraded" if notes else "ok" if started else "starting",
        version=__version__,
        gpus=gpus,
        jobs=jobs,
        sources=[asdict(source) for source in report.sources],
        notes=notes,
    )
