"""What questions and answers of the built-in backends have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Asked(BaseModel):
    """A question, or a part of one: numbers as numbers (no text for one), nothing that is not known."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class Told(BaseModel):
    """An answer, or a part of one; a figure without a value is null."""

    model_config = ConfigDict(extra="forbid")


GpuName = Annotated[str, Field(min_length=1, max_length=100, description="Any name that the GPU catalogue knows.")]

Name = Annotated[str, Field(min_length=1, max_length=200)]
