"""A detection as JSON: of `epochcast detect --json`, of the HTTP API and in answers to jobs, by its own declaration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, PlainValidator, create_model

from epochcast.detector import Detection, Unit
from epochcast.regressor.profile import STRICT

_FIELDS: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Detection).items() if name != "scores"}
_FIELDS["period_s"] = (Annotated[float, Field(gt=0)] | None, ...)
_FIRST_SAMPLE = Annotated[float, Field(description="Unix seconds; text and plot count from here.")]

DetectionDocument: type[BaseModel] = create_model(
    "Detection", __config__=cast(ConfigDict, STRICT), **_FIELDS, unit=(Unit | None, ...)
)
"""A detection without its scores."""

TraceDetection: type[BaseModel] = create_model("TraceDetection", __base__=DetectionDocument, first_sample=(_FIRST_SAMPLE, ...))
"""A detection, and what it is of."""


def _document(detection: Detection, **more: Any) -> BaseModel:
    kind = TraceDetection if more else DetectionDocument
    return kind(**{name: getattr(detection, name) for name in (*_FIELDS, "unit")}, **more)


def _read(data: Any) -> Detection:
    if isinstance(data, Detection):
        return data
    document = DetectionDocument.model_validate_json(json.dumps(data))  # in JSON a list is a tuple, and nothing else is
    return Detection(**{name: getattr(document, name) for name in _FIELDS})


DetectionJson = Annotated[
    Detection,
    PlainSerializer(_document, return_type=DetectionDocument),
    PlainValidator(_read, json_schema_input_type=DetectionDocument),
]
"""A detection in an answer."""


def detection_json(detection: Detection, first_sample: float) -> dict[str, Any]:
    """A detection as JSON values; ``first_sample``: unix seconds of the trace's first."""
    return _document(detection, first_sample=first_sample).model_dump(mode="json")


def reported(detection: Detection) -> Detection:
    """What reports and answers hold of what was found, without arrays and epochs."""
    # That of the best candidate, where none was good enough, says nothing of an answer.
    confidence = 0.0 if detection.verdict == "none" else min(max(float(detection.confidence), 0.0), 1.0)
    jobs = tuple(replace(job, epochs=()) for job in detection.jobs)
    return replace(detection, confidence=confidence, epochs=(), jobs=jobs, scores={})
