"""What the scripts that measure on a GPU write next to their tables, in ``meta.json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def meta_beside(path: Path, *keys: str) -> Any:
    """What ``meta.json`` next to the file has under these keys, each below the one before; None if it has nothing there."""
    try:
        value = json.loads(path.with_name("meta.json").read_text(encoding="utf-8"))
        for key in keys:
            value = value[key]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return value
