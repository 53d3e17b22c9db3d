"""JSON of answers that may hold figures without a value."""

from __future__ import annotations

import json
import math
from typing import Any


def plain_json(value: Any) -> str:
    """Indented JSON in which NaN and infinity, which JSON does not know, are null."""
    return json.dumps(_plain(value), indent=2, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
