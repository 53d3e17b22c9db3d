"""Progress of long work: one line on stderr that is written over, and only where stderr is a terminal that can do so."""

from __future__ import annotations

import os
import shutil
import sys

_CLEAR = "\r\033[K"


def show(line: str) -> None:
    """Replace the line on the terminal by ``line``, cut to its width."""
    if _is_terminal():
        sys.stderr.write(_CLEAR + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()


def clear() -> None:
    """Remove the line."""
    if _is_terminal():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
