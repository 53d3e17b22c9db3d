"""The file behind the store: opened by several processes, and set aside where it turns out to be damaged.

Whichever process notices first renames the file and begins an empty one; the others go on with that at their next access.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from epochcast.analyzer.errors import InputError

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_BUSY_S = 5.0  # a reader or writer waits so long for another


class StateFile:
    """An SQLite file that every thread may use. Errors of the disk are `sqlite3.Error`.

    Attributes:
        path: where it is.
        generation: raised whenever an empty file has taken the place of a damaged one.
    """

    def __init__(self, path: Path, prepare: Callable[[sqlite3.Connection], None], *, check: bool) -> None:
        """Open the file, or make it.

        Args:
            path: of the file; its folder is made.
            prepare: makes its tables where they are missing; may raise InputError.
            check: check the whole file for damage, which takes seconds per GB.

        Raises:
            InputError: the folder cannot be written.
        """
        self.path = path
        self.generation = 0
        self._prepare = prepare
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._present
            try:
                self._open(check=check)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
        except sqlite3.OperationalError as error:
            raise InputError(f"the state {str(path)!r} cannot be opened ({error}); name a file that can be written") from error
        except OSError as error:
            raise InputError(f"the state {str(path)!r} cannot be written: {error.strerror}; name another file") from error

    @property
    def set_aside(self) -> list[Path]:
        """Damaged files that are still next to this one."""
        return sorted(self.path.parent.glob(f"{glob.escape(self.path.name)}.broken-{'[0-9]' * 10}"))

    def use(self, action: Callable[[sqlite3.Connection], _Result]) -> _Result:
        """Read or write. Damage that comes to light is an error of this call; the next one has an empty file."""
        with self._lock:
            if self._present != self._file or self._connection is None:
                self._open()
                self.generation += 1
            assert self._connection is not None
            try:
                return action(self._connection)
            except sqlite3.DatabaseError as error:
                if _is_damage(error):
                    with contextlib.suppress(OSError):  # a folder that cannot be written
                        self._set_aside(error)
                elif reason := self._refusal:
                    raise sqlite3.OperationalError(reason) from error
                raise

    def close(self) -> None:
        """Close it."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()

    @property
    def _present(self) -> tuple[int, int] | None:
        """Device and inode of the file at the path."""
        try:
            status = self.path.stat()
        except OSError:  # opening it says why
            return None
        return status.st_dev, status.st_ino

    @property
    def _refusal(self) -> str:
        """Why the system lets nobody write the file, which SQLite calls an I/O error; empty where it does."""
        try:
            os.utime(self.path)  # to open and close it would end SQLite's locks
        except OSError as error:
            return str(error.strerror).lower()
        return ""

    def _open(self, *, check: bool = False) -> None:
        with contextlib.suppress(OSError):  # SQLite says what is wrong; it gives the log the same mode
            if self._present is None:
                self.path.touch(0o600)
            self.path.chmod(0o600)
        connection = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            if check:
                ((result,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
                if result != "ok":
                    raise sqlite3.DatabaseError(" ".join(result.split()))
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        if self._connection is not None:
            self._connection.close()  # SQLite leaves the log of a file that was moved alone
        self._connection, self._file = connection, self._present

    def _set_aside(self, error: sqlite3.Error) -> None:
        """Go on with an empty file; the damaged one keeps what it holds under another name."""
        with _alone_in(self.path.parent):
            if self._present == self._file:  # another process may have been here before
                aside = self.path.with_name(f"{self.path.name}.broken-{int(time.time())}")
                log.error("the state %s is damaged (%s): set aside as %s", self.path, error, aside.name)
                for end in ("-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):
                        Path(f"{self.path}{end}").replace(f"{aside}{end}")
            self._open()
            self.generation += 1


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether the file is at fault (SQLITE_CORRUPT, SQLITE_NOTADB); of the disk, a lock or a value there are subclasses."""
    return type(error) is sqlite3.DatabaseError


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep out other processes that do the same meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def alone_with(state: Path) -> Iterator[None]:
    """Keep other analyzers from the state at this path: two that detect the same GPUs would take each other's place in it.

    A file next to it is locked, as SQLite locks and unlocks its own. The lock ends with the process, however that happens.

    Raises:
        InputError: another process has the state, or the file cannot be written.
    """
    try:
        if state.is_dir():
            raise InputError(f"the state {str(state)!r} is a folder; name a file")
        path = state.with_name(f"{state.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(0o600)  # who may open it may lock it
        file = path.open("ab")
    except OSError as error:
        raise InputError(f"the state {str(state)!r} cannot be written: {error.strerror}; name another file") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"another analyzer is using the state {str(state)!r}; stop it, or name another file") from None
        except OSError as error:  # a file system without locks: a service that does not start would be worse
            log.warning("cannot check whether another analyzer uses the state %s: %s", state, error.strerror)
        yield
