"""What the service tells beside jobs (``jobs/answers``): errors, epochs, its own health."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..jobs.answers import AnswerModel


class Problem(AnswerModel):
    """An error as RFC 9457 has it (``application/problem+json``)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="One sentence: what, the value seen, the remedy.")
    instance: str | None = None


class EpochAnswer(AnswerModel):
    """One epoch that has ended."""

    start: float
    end: float
    seconds: float
    confidence: float
    job_since: float
    profile: dict[str, Any] | None = Field(
        default=None, description="Of this epoch alone (epochcast.profile/v1), if asked for."
    )


class Health(AnswerModel):
    """How the service is."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[dict[str, Any]] = Field(description="Each with kind, name, up, error and the age of its newest samples.")
    notes: list[str]
