"""What can be asked of the service with a profile: the bodies of POST requests.

A profile is checked by `read_profile`, whose rules (the order of quartiles, the range of ratios) no JSON schema can say.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.profile import Profile
from epochcast.regressor.profile_json import profile_schema, read_profile


@cache
def example_profile() -> dict[str, Any]:
    """Return the profile that examples show: of a simulated job on a T4, and it says so."""
    profile: dict[str, Any] = json.loads(files(__package__).joinpath("example_profile.json").read_text(encoding="utf-8"))
    return profile


ProfileJson = Annotated[Profile, PlainValidator(read_profile), WithJsonSchema(profile_schema())]
"""A profile in a request: checked, and described in OpenAPI."""

GpuName = Annotated[str, Field(min_length=1, max_length=100)]


CARBON_INTENSITY = "Carbon intensity of the electricity [g CO2e/kWh]"
CarbonIntensity = Annotated[float, Field(gt=0, le=5000)]  # no grid is above 1000; a diesel generator has some 800

PIPELINE = "Epochcast's own pipeline, or the black-box paper's: its passes find the epochs, its stack predicts."

BATCH_MAY_GROW = "Let the batch grow with a GPU's memory (assumes that no more epochs are needed)."


class RecommendationQuestion(BaseModel):
    """A job, and the limits of a recommendation for it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra=lambda schema: schema.update(examples=[{"profiles": [example_profile()], "clouds": ["aws"]}]),
    )

    profiles: Annotated[list[ProfileJson], Field(min_length=1, max_length=64, description="One for each GPU of the job.")]
    epochs: Annotated[int | None, Field(ge=1, le=10**9, description="Epochs (or steps) of the whole job; null: one.")] = None
    pipeline: Annotated[Pipeline | None, Field(description=f"{PIPELINE} null: as configured.")] = None
    objective: Annotated[Literal["cost", "time"], Field(description="Rank by cost or by time.")] = "cost"
    market: Annotated[Literal["on-demand", "spot"], Field(description="Which price to pay.")] = "on-demand"
    clouds: Annotated[list[GpuName], Field(max_length=50, description="Only these clouds; empty: all.")] = []
    regions: Annotated[list[GpuName], Field(max_length=200, description="Only these regions; empty: all.")] = []
    deadline_s: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False, description="Only instances expected to finish within this many seconds."),
    ] = None
    budget_usd: Annotated[
        float | None, Field(gt=0, allow_inf_nan=False, description="Only instances expected to cost at most this much.")
    ] = None
    data_parallel: Annotated[bool, Field(description="Also rank several GPUs for a job of one GPU.")] = False
    batch_may_grow: Annotated[bool, Field(description=BATCH_MAY_GROW)] = False
    carbon_intensity: Annotated[
        CarbonIntensity | None, Field(description=f"{CARBON_INTENSITY}; null: as configured, else the region's.")
    ] = None
