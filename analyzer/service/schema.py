"""What the service tells beside jobs (`answers.answer_schema`): errors, epochs, its own health."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ..answers.answer_schema import AnswerModel


class Problem(AnswerModel):
    """An error as RFC 9457 defines it (``application/problem+json``)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="One sentence: what is wrong, the value seen, and the remedy.")
    instance: str | None = None


class EpochAnswer(AnswerModel):
    """An epoch that has ended."""

    start: float
    end: float
    seconds: float
    confidence: float
    job_since: float
    profile: dict[str, Any] | None = Field(
        default=None, description="Profile of this epoch alone (epochcast.profile/v1), with `profiles=true`."
    )


class Health(AnswerModel):
    """Health of the service."""

    status: Literal["ok", "starting", "degraded"]
    version: str
    gpus: int
    jobs: int
    sources: list[dict[str, Any]] = Field(description="Each telemetry source: kind, name, up, error, age of its newest sample.")
    notes: list[str] = Field(description="What is wrong, one sentence each.")
