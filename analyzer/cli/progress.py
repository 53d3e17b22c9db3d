"""Progress of long work on stderr: one line that is written over on a terminal, a line a minute in a log."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.live import Live

_LOG_INTERVAL_S = 60.0

_live: Live | None = None
_last_logged: float | None = None


def show(line: str) -> None:
    """Replace the line on the terminal by ``line``, cut to its width."""
    global _live, _last_logged
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        if _live is None:  # drawn by nobody but us: a thread of its own would be there when a worker process is forked
            console = Console(stderr=True)
            _live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False)
            _live.start()
        _live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
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
    global _live, _last_logged
    _last_logged = None
    if _live is not None:
        _live.stop()
        _live = None
