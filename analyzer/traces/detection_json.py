"""A detection as JSON: of `epochcast detect --json`, of the HTTP API and in answers to jobs, by its own declaration."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, Field, PlainSerializer, PlainValidator, TypeAdapter, create_model

from epochcast.detector import Detection, Unit

_FIELDS: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Detection).items() if name != "scores"}
_FIRST_SAMPLE = Annotated[float, Field(description="Unix seconds; text and plot count from here.")]
_READER = TypeAdapter(Detection)

DetectionDocument: type[BaseModel] = create_model("Detection", **_FIELDS, unit=(Unit | None, ...))
"""A detection without its scores."""

TraceDetection: type[BaseModel] = create_model("TraceDetection", __base__=DetectionDocument, first_sample=(_FIRST_SAMPLE, ...))
"""A detection, and what it is of."""


def _document(detection: Detection, **more: Any) -> BaseModel:
    kind = TraceDetection if more else DetectionDocument
    return kind(**{name: getattr(detection, name) for name in (*_FIELDS, "unit")}, **more)


def _read(data: Any) -> Detection:
    return data if isinstance(data, Detection) else _READER.validate_python({name: data[name] for name in _FIELDS})


DetectionJson = Annotated[
    Detection,
    PlainSerializer(_document, return_type=DetectionDocument),
    PlainValidator(_read, json_schema_input_type=DetectionDocument),
]
"""A detection in an answer."""


def detection_json(detection: Detection, first_sample: float) -> dict[str, Any]:
    """A detection as JSON values; ``first_sample``: unix seconds of the trace's first."""
    return _document(detection, first_sample=first_sample).model_dump(mode="json")
