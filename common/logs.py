"""Logs on stderr: lines for a reader, lines with the journal's priorities, or JSON."""

import json
import logging
import os
import sys
import threading
from datetime import UTC, datetime

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
# The journal stamps each line itself.
JOURNAL = "%(levelname)s %(name)s: %(message)s"

_handler = logging.StreamHandler()

log = logging.getLogger(__name__)


def setup(log_format: str = "text") -> None:
    """Send logs of level INFO and above to stderr as ``text`` or ``json``; a later call changes the format."""
    formatter: logging.Formatter
    if log_format == "json":
        formatter = JsonFormatter()
    else:
        formatter = JournalFormatter(JOURNAL) if stderr_is_the_journal() else logging.Formatter(TEXT)
    # One handler for the life of the process: no line is lost or doubled while a reload changes its format.
    _handler.setFormatter(formatter)
    _handler.setStream(sys.stderr)
    root = logging.getLogger()
    root.addHandler(_handler)
    root.setLevel(logging.INFO)
    # What ends a thread is a line like any other, not a traceback of Python's own.
    threading.excepthook = _log_thread_end


def _log_thread_end(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread else "unknown"
    error = ended.exc_value or ended.exc_type()
    log.error("the thread %r ended with an error", name, exc_info=(ended.exc_type, error, ended.exc_traceback))


def stderr_is_the_journal() -> bool:
    """Whether stderr is the stream that systemd named in $JOURNAL_STREAM (device:inode), and not a redirection of it."""
    try:
        stream = os.fstat(sys.stderr.fileno())
    except (OSError, ValueError):  # closed, or replaced by an object without a descriptor
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{stream.st_dev}:{stream.st_ino}"


class JournalFormatter(logging.Formatter):
    """Puts sd-daemon(3)'s priority before every line, of a traceback too: the journal takes each for an entry of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as lines that start with ``<3>`` (error), ``<4>`` (warning) and so on."""
        priority = f"<{_priority(record.levelno)}>"
        return priority + super().format(record).replace("\n", f"\n{priority}")


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ``time`` (RFC 3339, UTC, ms), ``level``, ``logger``, ``message``, ``exception`` if any."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"time": moment, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _priority(level: int) -> int:
    """Return syslog's priority of a level of `logging`."""
    for least, priority in ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6)):
        if level >= least:
            return priority
    return 7
