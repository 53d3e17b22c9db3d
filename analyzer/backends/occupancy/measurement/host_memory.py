"""Peak memory of this process, where Linux tells it."""

from __future__ import annotations

import math
from pathlib import Path

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def forget_peak() -> bool:
    """Let the peak be what is held now; whether that could be done."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


def peak_bytes() -> float:
    """The most physical memory that was held at once; NaN if it is not told."""
    return _field("VmHWM")


def held_bytes() -> float:
    """Physical memory that is held now; NaN if it is not told."""
    return _field("VmRSS")


def _field(name: str) -> float:
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return math.nan
    return next((1024.0 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), math.nan)
