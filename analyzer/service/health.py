"""How the service is, in one word and a sentence on each thing that is wrong."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from epochcast.analyzer.live.health import MOST_SOURCES, SourceStatus

MOST_NOTES = 20


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
        description=f"What is wrong, one sentence each; of more than {MOST_NOTES} the first, and how many more."
    )
    unavailable_backends: dict[str, str] = Field(
        default={}, description="Backends that cannot be used as the service is installed, and what each needs."
    )
