"""Formats of the GPU measurement scripts; nothing here is read unless somebody has run them on a GPU.

One file per script, named like it; what it gives is plain tables in base units. The registries of foreign formats
(the backends' ``adapters/`` and ``operator_time/corpus.py``) make their own of them. The scripts write
``meta.json`` next to their tables.
"""

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
