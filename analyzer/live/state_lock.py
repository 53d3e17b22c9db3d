"""One analyzer to a state: two that detect the same GPUs would take each other's place in it, again and again."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import InputError

log = logging.getLogger(__name__)


@contextmanager
def alone_with(state: Path) -> Iterator[None]:
    """Keep others from the state at this path; it is free again when the process ends, however that happens.

    A file beside it is locked: SQLite locks and unlocks its own. Raises InputError where another process has the state, or the
    file cannot be written.
    """
    if state.is_dir():
        raise InputError(f"the state {str(state)!r} is a folder; name a file")
    path = state.with_name(f"{state.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    except OSError as error:
        raise InputError(f"the state {str(state)!r} cannot be written: {error.strerror}; name another file") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another analyzer runs with the state {str(state)!r}; end that one, or name another file"
            ) from None
        except OSError as error:  # a file system without locks: a service that does not start would be worse
            log.warning("whether another analyzer has the state %s cannot be known: %s", state, error.strerror)
        yield
