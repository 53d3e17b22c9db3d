"""A detection as JSON: of `epochcast detect --json` and of the HTTP API, by its own declaration."""

from __future__ import annotations

from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, Field, create_model

from epochcast.detector import Detection, Unit

_FIELDS: dict[str, Any] = {name: (kind, ...) for name, kind in get_type_hints(Detection).items() if name != "scores"}
_FIRST_SAMPLE = Annotated[float, Field(description="Unix seconds; text and plot count from here.")]

DetectionDocument: type[BaseModel] = create_model(
    "Detection", **_FIELDS, unit=(Unit | None, ...), first_sample=(_FIRST_SAMPLE, ...)
)
"""A detection without its scores, and what it is of."""


def detection_json(detection: Detection, first_sample: float) -> dict[str, Any]:
    """A detection as JSON values; ``first_sample``: unix seconds of the trace's first."""
    fields = {name: getattr(detection, name) for name in (*_FIELDS, "unit")}
    return DetectionDocument(**fields, first_sample=first_sample).model_dump(mode="json")
