"""JSON of answers that may hold figures without a value."""

from __future__ import annotations

import json
import math
from typing import Any


def plain_json(value: Any) -> str:
    """Indented JSON in which NaN and infinity, which JSON does not know, are null."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def plain(value: Any) -> Any:
    """What JSON can hold: NaN and infinity, which it does not know, are None."""
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
