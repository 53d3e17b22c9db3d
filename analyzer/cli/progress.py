"""Progress of long work on stderr: one line that is written over on a terminal, a line a minute in a log."""

from __future__ import annotations

import os
import shutil
import sys
import time

_CLEAR = "\r\033[K"
_LOG_INTERVAL_S = 60.0

_last_logged: float | None = None


def show(line: str) -> None:
    """Replace the line on the terminal by ``line``, cut to its width."""
    global _last_logged
    if _is_terminal():
        sys.stderr.write(_CLEAR + line[: shutil.get_terminal_size().columns - 1])
        sys.stderr.flush()
        return
    now = time.monotonic()
    if _last_logged is None:  # the work begins; most is done within a minute
        _last_logged = now
    elif now - _last_logged >= _LOG_INTERVAL_S:
        _last_logged = now
        sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
        sys.stderr.flush()


def clear() -> None:
    """Remove the line."""
    global _last_logged
    _last_logged = None
    if _is_terminal():
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
