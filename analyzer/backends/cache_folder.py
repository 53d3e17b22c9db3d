"""Where things are kept that can be had again, from one run to the next."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``epochcast`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``); it may not be there yet."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "epochcast"
