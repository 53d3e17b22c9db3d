"""What can be asked of the service with a profile: the bodies of POST requests.

A profile is checked by `Profile.from_json`, whose rules (the order of quartiles, the range of ratios) no JSON schema can say.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema

from epochcast.regressor.job_types import JOB_TYPES
from epochcast.regressor.pipelines import Pipeline
from epochcast.regressor.precision import PRECISIONS
from epochcast.regressor.profile import METRICS, MOST_GPUS, SCHEMA, STATISTICS, THROTTLED, Profile, Unit


@cache
def example_profile() -> dict[str, Any]:
    """Return the profile that examples show: of a simulated job on a T4, and it says so."""
    profile: dict[str, Any] = json.loads(files(__package__).joinpath("example_profile.json").read_text(encoding="utf-8"))
    return profile


def _schema() -> dict[str, Any]:
    number, ratio = {"type": "number"}, {"type": "number", "minimum": 0, "maximum": 1}
    positive = {"anyOf": [{"type": "number", "exclusiveMinimum": 0, "maximum": 1e18}, {"type": "null"}]}
    name = {"anyOf": [{"type": "string", "minLength": 1, "maxLength": 100}, {"type": "null"}]}
    statistics = {
        "type": "object",
        "properties": dict.fromkeys(STATISTICS, number),
        "required": list(STATISTICS),
        "additionalProperties": False,
    }
    properties = {
        "schema": {"const": SCHEMA, "type": "string"},
        "gpu": {"type": "string", "minLength": 1, "maxLength": 100, "description": "Any name or alias of the GPU catalogue."},
        "epoch_s": {**positive, "description": "Seconds of one epoch, step or cycle; null if none was found."},
        "unit": {"enum": [*get_args(Unit), None]},
        "epochs": {"type": "integer", "minimum": 0, "description": "How many epochs the statistics cover."},
        "metrics": {
            "type": "object",
            "properties": dict.fromkeys(sorted(METRICS), statistics),
            "additionalProperties": False,
            "description": "Metric -> statistic -> value in base units.",
        },
        "feature_set": {"enum": ["nvml", "dcgm", "none"]},
        "first_epoch_excluded": {"type": "boolean"},
        "workload": name,
        "group": name,
        "simulated": {"type": "boolean", "default": False},
        "epoch_s_low": positive,
        "epoch_s_high": positive,
        "step_s": positive,
        "first_epoch_s": positive,
        "stalls": {"type": "integer", "minimum": 0, "default": 0},
        "stall_s": {"type": "number", "minimum": 0, "default": 0},
        "precision": {
            "enum": [*PRECISIONS, None],
            "description": "Of the job's matrix products; null if unknown.",
        },
        "type": {"enum": [*JOB_TYPES, None], "description": "What kind of job it is; null if unknown."},
        "inference": {"type": "boolean", "default": False, "description": "The job answers, and does not train."},
        "batch": {**positive, "description": "Samples in one step."},
        "origin": name,
        "gpus": {"type": "integer", "minimum": 1, "maximum": MOST_GPUS, "default": 1, "description": "Of the job."},
        "wait_share": {**ratio, "default": 0, "description": "Share of time in checkpoints."},
        "tensor_clock": {
            "type": ["number", "null"],
            "minimum": 0,
            "description": "Mean of tensor activity times SM clock [Hz]; null without either.",
        },
        "throttled": {
            "type": ["object", "null"],
            "properties": dict.fromkeys(THROTTLED.values(), ratio),
            "additionalProperties": False,
            "description": "Reason -> share of time in which it held the clocks down; null without reasons.",
        },
        "held_idle_s": {
            "type": ["number", "null"],
            "minimum": 0,
            "description": "Seconds of the job in which memory was held and nothing ran; null if unknown.",
        },
    }
    required = ["schema", "gpu", "epoch_s", "unit", "epochs", "metrics", "feature_set", "first_epoch_excluded"]
    return {
        "type": "object",
        "title": "Profile",
        "description": f"Summary of one job on one GPU ({SCHEMA}), as `epochcast profile` and the service write it.",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


ProfileJson = Annotated[Profile, PlainValidator(Profile.from_json), WithJsonSchema(_schema())]
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
